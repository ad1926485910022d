// SPDX-License-Identifier: MIT
/*
 * GridRPC (GFD-R.052): opening and closing, handles, calls. Owns the program's
 * one session with the hub; `opening` guards that it is opened once.
 */
#include "gridrpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_MARK 0x656c646e61686772ul /* no handle's memory by chance */
#define NAME_BYTES 256

static struct grid_client *client;
static u32 opened; /* times; handles of an earlier session are not valid */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

struct grid_client *gridrpc_client(void)
{
	struct grid_client *c = __atomic_load_n(&client, __ATOMIC_ACQUIRE);

	if (!c)
		gridrpc_error_set(GRPC_NOT_INITIALIZED,
				  "there is no session with the hub: call "
				  "grpc_initialize first");
	return c;
}

/* Opening ------------------------------------------------------------------ */

static grpc_error_t open_client(const char *file)
{
	const char *path = getenv("SKEP_SOCKET");
	struct grid_client *c;
	char *hub = NULL;
	grpc_error_t error;

	if (file && *file) {
		error = gridrpc_config_read(file, &hub);
		if (error)
			return error;
	}
	if (hub)
		path = hub;
	if (!path || !*path) {
		free(hub);
		return gridrpc_error_set(GRPC_COMMUNICATION_FAILED,
					 "SKEP_SOCKET is not set: start this "
					 "program with `skep run -- PROGRAM`, "
					 "or name the hub's socket in the "
					 "configuration file: hub PATH");
	}
	error = gridrpc_error_of(grid_client_open(&c, path));
	free(hub);
	if (error)
		return error;
	c->quiet = 1;
	opened++;
	__atomic_store_n(&client, c, __ATOMIC_RELEASE);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_initialize(char *config_file)
{
	grpc_error_t error;

	pthread_mutex_lock(&opening);
	error = client ? gridrpc_error_set(GRPC_ALREADY_INITIALIZED,
					   "grpc_initialize has already been "
					   "called")
		       : open_client(config_file);
	pthread_mutex_unlock(&opening);
	return error;
}

grpc_error_t grpc_finalize(void)
{
	struct grid_client *c;

	if (grid_back_refuse("end the session"))
		return gridrpc_error_of(OMRPC_E_REFUSED);
	pthread_mutex_lock(&opening);
	c = gridrpc_client();
	client = NULL;
	pthread_mutex_unlock(&opening);
	if (!c)
		return GRPC_NOT_INITIALIZED;
	gridrpc_session_stop();
	gridrpc_session_clear();
	grid_client_close(c);
	gridrpc_data_clear();
	gridrpc_object_clear();
	return GRPC_NO_ERROR;
}

/* Handles ------------------------------------------------------------------ */

struct skep_handle *gridrpc_handle_module(struct grid_client *c,
					  const grpc_function_handle_t *handle)
{
	struct skep_handle *m = NULL;

	if (handle && handle->mark == HANDLE_MARK + opened) {
		pthread_mutex_lock(&c->lock);
		m = c->modules;
		pthread_mutex_unlock(&c->lock);
	}
	while (m && m != handle->module)
		m = m->next;
	if (!m)
		gridrpc_error_set(GRPC_INVALID_FUNCTION_HANDLE,
				  "the handle was not made by "
				  "grpc_function_handle_default or _init, or "
				  "it was destructed");
	return m;
}

/* Ninf-G's "module/function" as the library has it. */
static grpc_error_t copy_name(char *to, const char *name)
{
	char *slash;

	if (!name || !*name || strlen(name) >= NAME_BYTES)
		return gridrpc_error_set(GRPC_FUNCTION_NOT_FOUND,
					 "a function is named by 1 to %d "
					 "characters: module/function",
					 NAME_BYTES - 1);
	strcpy(to, name);
	slash = strrchr(to, '/');
	if (slash && !strchr(slash, '.'))
		*slash = '.';
	return GRPC_NO_ERROR;
}

static struct skep_handle *find_function(struct grid_client *c,
					 const char *server, const char *name,
					 int *function)
{
	struct skep_handle *m;
	const char *dot;

	*function = grid_module_function(c, name, &m);
	if (*function < 0)
		return NULL;
	if (m->module.function[*function].flags & SKEP_FUNCTION_INIT) {
		grid_error_set(OMRPC_E_NO_FUNCTION,
			       "%s is run by each worker when it starts: it "
			       "cannot be called",
			       name);
		return NULL;
	}
	if (!server || !*server)
		return m;
	dot = strrchr(name, '.');
	m = grid_module_bind_host(c, server, m->name);
	if (m)
		*function = grid_handle_function(m, dot ? dot + 1 : name);
	return m && *function >= 0 ? m : NULL;
}

grpc_error_t grpc_function_handle_init(grpc_function_handle_t *handle,
				       char *server, char *name)
{
	struct grid_client *c = gridrpc_client();
	char wanted[NAME_BYTES];
	struct skep_handle *m;
	grpc_error_t error;
	int function;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	if (!handle)
		return gridrpc_error_set(GRPC_INVALID_FUNCTION_HANDLE,
					 "the handle is NULL");
	handle->mark = 0;
	error = copy_name(wanted, name);
	if (error)
		return error;
	m = find_function(c, server, wanted, &function);
	if (!m)
		return gridrpc_error_of(grid_error_code());
	handle->module = m;
	handle->function = (u32)function;
	handle->ranks = 0;
	handle->mark = HANDLE_MARK + opened;
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_function_handle_default(grpc_function_handle_t *handle,
					  char *name)
{
	return grpc_function_handle_init(handle, NULL, name);
}

grpc_error_t grpc_function_handle_destruct(grpc_function_handle_t *handle)
{
	struct grid_client *c = gridrpc_client();

	if (!c)
		return GRPC_NOT_INITIALIZED;
	if (!gridrpc_handle_module(c, handle))
		return GRPC_INVALID_FUNCTION_HANDLE;
	handle->mark = 0;
	return GRPC_NO_ERROR;
}

static grpc_error_t check_array(const grpc_function_handle_t *handles,
				size_t count)
{
	if (handles && count)
		return GRPC_NO_ERROR;
	return gridrpc_error_set(GRPC_INVALID_FUNCTION_HANDLE,
				 "there is no handle in the array");
}

grpc_error_t grpc_function_handle_array_init_np(grpc_function_handle_t *handles,
						size_t count, char *server,
						char *name)
{
	grpc_error_t error = check_array(handles, count);
	size_t i;

	if (!error)
		error = grpc_function_handle_init(handles, server, name);
	for (i = 1; i < count && !error; i++)
		handles[i] = handles[0];
	return error;
}

grpc_error_t
grpc_function_handle_array_default_np(grpc_function_handle_t *handles,
				      size_t count, char *name)
{
	return grpc_function_handle_array_init_np(handles, count, NULL, name);
}

grpc_error_t
grpc_function_handle_array_destruct_np(grpc_function_handle_t *handles,
				       size_t count)
{
	grpc_error_t one, error = check_array(handles, count);
	size_t i;

	if (error)
		return error;
	for (i = 0; i < count; i++) {
		one = grpc_function_handle_destruct(&handles[i]);
		error = error ? error : one;
	}
	return error;
}

/* Calls -------------------------------------------------------------------- */

/* A number of ranks goes before the other arguments. */
static struct skep_request *start_stack(struct grid_client *c,
					const struct skep_handle *m,
					const grpc_function_handle_t *handle,
					const grpc_arg_stack_t *stack)
{
	void *all[SKEP_PARAMS_MAX + 1], *const *values;
	int ranks = handle->ranks;
	u32 count;

	values = gridrpc_stack_values(stack, &count);
	if (ranks && count < SKEP_PARAMS_MAX) {
		all[0] = &ranks;
		memcpy(all + 1, values, count * sizeof(*values));
		values = all;
		count++;
	}
	return grid_call_start_at(c, m, handle->function, values, count);
}

/* The call of a handle with the values of `stack`, or else of `args`. */
static grpc_error_t start_call(struct skep_request **request,
			       const grpc_function_handle_t *handle,
			       const grpc_arg_stack_t *stack, va_list *args)
{
	struct grid_client *c = gridrpc_client();
	struct skep_handle *m;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	m = gridrpc_handle_module(c, handle);
	if (!m)
		return GRPC_INVALID_FUNCTION_HANDLE;
	if (args) {
		*request = grid_call_start_ranks(c, m, handle->function,
						 handle->ranks, NULL, *args);
	} else if (stack) {
		*request = start_stack(c, m, handle, stack);
	} else {
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the argument stack is NULL");
	}
	return *request ? GRPC_NO_ERROR : gridrpc_error_of(grid_error_code());
}

grpc_error_t gridrpc_call_finish(struct skep_request *r)
{
	grpc_error_t error;

	if (!r)
		return gridrpc_error_of(grid_error_code());
	error = gridrpc_error_of(grid_request_wait(client, r));
	grid_request_free(client, r);
	return error ? error : gridrpc_data_deliver(client);
}

static grpc_error_t run_call(grpc_function_handle_t *handle,
			     const grpc_arg_stack_t *stack, va_list *args)
{
	struct skep_request *r;
	grpc_error_t error = start_call(&r, handle, stack, args);

	return error ? error : gridrpc_call_finish(r);
}

grpc_error_t gridrpc_call_keep(struct skep_request *r,
			       struct gridrpc_maker maker, grpc_sessionid_t *id)
{
	grpc_error_t error;

	if (!r)
		return gridrpc_error_of(grid_error_code());
	error = gridrpc_session_add(r, maker, id);
	if (!error)
		return GRPC_NO_ERROR;
	/* Nobody could wait for it, and it writes into the arguments. */
	grid_request_cancel(client, r);
	grid_request_wait(client, r);
	grid_request_free(client, r);
	return gridrpc_error_set(error, "out of memory for another session");
}

grpc_error_t gridrpc_call_async(grpc_function_handle_t *handle,
				grpc_sessionid_t *id,
				const grpc_arg_stack_t *stack, va_list *args)
{
	struct skep_request *r;
	grpc_error_t error;

	if (!id)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no place for the session");
	*id = GRPC_SESSIONID_VOID;
	error = start_call(&r, handle, stack, args);
	return error ? error
		     : gridrpc_call_keep(
			       r, (struct gridrpc_maker){handle, NULL}, id);
}

grpc_error_t grpc_call(grpc_function_handle_t *handle, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, handle);
	error = run_call(handle, NULL, &args);
	va_end(args);
	return error;
}

grpc_error_t grpc_call_async(grpc_function_handle_t *handle,
			     grpc_sessionid_t *id, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, id);
	error = gridrpc_call_async(handle, id, NULL, &args);
	va_end(args);
	return error;
}

grpc_error_t grpc_call_argstack(grpc_function_handle_t *handle,
				grpc_arg_stack_t *stack)
{
	return run_call(handle, stack, NULL);
}

grpc_error_t grpc_call_argstack_async(grpc_function_handle_t *handle,
				      grpc_sessionid_t *id,
				      grpc_arg_stack_t *stack)
{
	return gridrpc_call_async(handle, id, stack, NULL);
}

int grpc_call_arg_stack(grpc_function_handle_t *handle, grpc_arg_stack_t *stack)
{
	return run_call(handle, stack, NULL) ? -1 : 0;
}

int grpc_call_arg_stack_async(grpc_function_handle_t *handle,
			      grpc_arg_stack_t *stack)
{
	grpc_sessionid_t id;

	return gridrpc_call_async(handle, &id, stack, NULL) ? -1 : 0;
}
