// SPDX-License-Identifier: MIT
/* Ninf-G's attributes of handles. An attribute set is its caller's, one thread
 * at a time. */
#include "gridrpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
	[GRPC_HANDLE_ATTR_HOSTNAME] = "HOSTNAME",
	[GRPC_HANDLE_ATTR_PORT] = "PORT",
	[GRPC_HANDLE_ATTR_JOBMANAGER] = "JOBMANAGER",
	[GRPC_HANDLE_ATTR_SUBJECT] = "SUBJECT",
	[GRPC_HANDLE_ATTR_FUNCNAME] = "FUNCNAME",
	[GRPC_HANDLE_ATTR_JOBSTARTTIMEOUT] = "JOBSTARTTIMEOUT",
	[GRPC_HANDLE_ATTR_JOBSTOPTIMEOUT] = "JOBSTOPTIMEOUT",
	[GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER] = "WAIT_ARG_TRANSFER",
	[GRPC_HANDLE_ATTR_QUEUENAME] = "QUEUENAME",
	[GRPC_HANDLE_ATTR_MPI_NCPUS] = "MPI_NCPUS",
};

static grpc_error_t refuse_name(grpc_handle_attr_name_t_np name)
{
	if ((u32)name >= sizeof(names) / sizeof(names[0]))
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no attribute %d", (int)name);
	return gridrpc_error_set(GRPC_RPC_REFUSED,
				 "GRPC_HANDLE_ATTR_%s has no meaning here: a "
				 "node is chosen by its name alone, and its "
				 "agent connects to the hub: leave it out",
				 names[name]);
}

static grpc_error_t refuse_null(void)
{
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				 "the attributes or a value is NULL");
}

grpc_error_t grpc_handle_attr_initialize_np(grpc_handle_attr_t_np *attr)
{
	if (!attr)
		return refuse_null();
	memset(attr, 0, sizeof(*attr));
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_handle_attr_destruct_np(grpc_handle_attr_t_np *attr)
{
	if (!attr)
		return refuse_null();
	free(attr->host);
	free(attr->name);
	memset(attr, 0, sizeof(*attr));
	return GRPC_NO_ERROR;
}

static grpc_error_t set_text(char **to, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return gridrpc_error_memory();
	free(*to);
	*to = copy;
	return GRPC_NO_ERROR;
}

static grpc_error_t set_ranks(int *to, int value)
{
	if (value < 1 || value > SKEP_RANKS_MAX)
		return gridrpc_error_set(GRPC_RPC_REFUSED,
					 "an MPI job has 1 to %d ranks, not %d",
					 SKEP_RANKS_MAX, value);
	*to = value;
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_handle_attr_set_np(grpc_handle_attr_t_np *attr,
				     grpc_handle_attr_name_t_np name,
				     void *value)
{
	if (!attr || !value)
		return refuse_null();
	switch (name) {
	case GRPC_HANDLE_ATTR_HOSTNAME:
		return set_text(&attr->host, value);
	case GRPC_HANDLE_ATTR_FUNCNAME:
		return set_text(&attr->name, value);
	case GRPC_HANDLE_ATTR_MPI_NCPUS:
		return set_ranks(&attr->ranks, *(const int *)value);
	case GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER:
		attr->transfer = *(const grpc_argument_transfer_t_np *)value;
		return GRPC_NO_ERROR;
	default:
		return refuse_name(name);
	}
}

static grpc_error_t copy_value(void **to, const void *from, size_t size)
{
	*to = malloc(size);
	if (!*to)
		return gridrpc_error_memory();
	memcpy(*to, from, size);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_handle_attr_get_np(grpc_handle_attr_t_np *attr,
				     grpc_handle_attr_name_t_np name,
				     void **value)
{
	const char *text;

	if (!attr || !value)
		return refuse_null();
	*value = NULL;
	switch (name) {
	case GRPC_HANDLE_ATTR_HOSTNAME:
	case GRPC_HANDLE_ATTR_FUNCNAME:
		text = name == GRPC_HANDLE_ATTR_HOSTNAME ? attr->host
							 : attr->name;
		return text ? copy_value(value, text, strlen(text) + 1)
			    : GRPC_NO_ERROR;
	case GRPC_HANDLE_ATTR_MPI_NCPUS:
		return copy_value(value, &attr->ranks, sizeof(attr->ranks));
	case GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER:
		return copy_value(value, &attr->transfer,
				  sizeof(attr->transfer));
	default:
		return refuse_name(name);
	}
}

grpc_error_t grpc_handle_attr_release_np(void *value)
{
	free(value);
	return GRPC_NO_ERROR;
}

/* Handles ------------------------------------------------------------------ */

grpc_error_t
grpc_function_handle_array_init_with_attr_np(grpc_function_handle_t *handles,
					     size_t count,
					     grpc_handle_attr_t_np *attr)
{
	grpc_error_t error;
	size_t i;

	if (!attr)
		return refuse_null();
	error = grpc_function_handle_array_init_np(handles, count, attr->host,
						   attr->name);
	for (i = 0; i < count && !error; i++)
		handles[i].ranks = attr->ranks;
	return error;
}

grpc_error_t
grpc_function_handle_init_with_attr_np(grpc_function_handle_t *handle,
				       grpc_handle_attr_t_np *attr)
{
	return grpc_function_handle_array_init_with_attr_np(handle, 1, attr);
}

/* "module/what" in new memory. */
static grpc_error_t set_name(char **to, const struct skep_handle *m,
			     const char *what)
{
	size_t size = strlen(m->name) + strlen(what) + 2;

	*to = malloc(size);
	if (!*to)
		return gridrpc_error_memory();
	snprintf(*to, size, "%s/%s", m->name, what);
	return GRPC_NO_ERROR;
}

/* The host is what precedes the module in the name that the hub was asked
 * for. */
static grpc_error_t fill_attr(grpc_handle_attr_t_np *attr,
			      const struct skep_handle *m, u32 what)
{
	const char *at = strchr(m->key, '@');
	grpc_error_t error;

	memset(attr, 0, sizeof(*attr));
	if (at) {
		attr->host = strndup(m->key, (size_t)(at - m->key));
		if (!attr->host)
			return gridrpc_error_memory();
	}
	error = set_name(&attr->name, m, m->module.function[what].name);
	if (error)
		grpc_handle_attr_destruct_np(attr);
	return error;
}

grpc_error_t grpc_function_handle_get_attr_np(grpc_function_handle_t *handle,
					      grpc_handle_attr_t_np *attr)
{
	struct grid_client *c = gridrpc_client();
	const struct skep_handle *m;
	grpc_error_t error;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	m = gridrpc_handle_module(c, handle);
	if (!m)
		return GRPC_INVALID_FUNCTION_HANDLE;
	if (!attr)
		return refuse_null();
	error = fill_attr(attr, m, handle->function);
	attr->ranks = handle->ranks;
	return error;
}

grpc_error_t grpc_object_handle_get_attr_np(grpc_object_handle_t_np *handle,
					    grpc_handle_attr_t_np *attr)
{
	struct grid_object o;
	grpc_error_t error = gridrpc_object_get(handle, &o);

	if (error)
		return error;
	return attr ? fill_attr(attr, o.module, o.class) : refuse_null();
}

grpc_error_t grpc_function_handle_is_ready_np(grpc_function_handle_t *handle)
{
	struct grid_client *c = gridrpc_client();

	if (!c)
		return GRPC_NOT_INITIALIZED;
	return gridrpc_handle_module(c, handle) ? GRPC_NO_ERROR
						: GRPC_INVALID_FUNCTION_HANDLE;
}

grpc_error_t grpc_object_handle_is_ready_np(grpc_object_handle_t_np *handle)
{
	struct grid_object o;

	return gridrpc_object_get(handle, &o);
}

grpc_error_t grpc_function_handle_get_error_np(grpc_function_handle_t *handle)
{
	return grpc_function_handle_is_ready_np(handle);
}

grpc_error_t grpc_object_handle_get_error_np(grpc_object_handle_t_np *handle)
{
	return grpc_object_handle_is_ready_np(handle);
}

grpc_error_t grpc_function_handle_perror_np(grpc_function_handle_t *handle,
					    char *text)
{
	grpc_error_t error = grpc_function_handle_is_ready_np(handle);

	return error ? error : grpc_perror_np(text);
}

grpc_error_t grpc_object_handle_perror_np(grpc_object_handle_t_np *handle,
					  char *text)
{
	grpc_error_t error = grpc_object_handle_is_ready_np(handle);

	return error ? error : grpc_perror_np(text);
}

grpc_error_t
grpc_object_handle_array_init_with_attr_np(grpc_object_handle_t_np *handles,
					   size_t count,
					   grpc_handle_attr_t_np *attr)
{
	if (!attr)
		return refuse_null();
	if (attr->ranks)
		return gridrpc_error_set(GRPC_RPC_REFUSED,
					 "an object is one process: leave "
					 "GRPC_HANDLE_ATTR_MPI_NCPUS out");
	return grpc_object_handle_array_init_np(handles, count, attr->host,
						attr->name);
}

grpc_error_t
grpc_object_handle_init_with_attr_np(grpc_object_handle_t_np *handle,
				     grpc_handle_attr_t_np *attr)
{
	return grpc_object_handle_array_init_with_attr_np(handle, 1, attr);
}
