// SPDX-License-Identifier: MIT
/*
 * Ninf-G's attributes of sessions, and the calls that have them. No state: an
 * attribute set is its caller's, one thread at a time.
 */
#include "gridrpc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ul

static const char *const names[] = {
	[GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER] = "WAIT_ARG_TRANSFER",
	[GRPC_SESSION_ATTR_SESSION_TIMEOUT] = "SESSION_TIMEOUT",
	[GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_ARGUMENT] =
		"TRANSFER_TIMEOUT_ARGUMENT",
	[GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT] = "TRANSFER_TIMEOUT_RESULT",
	[GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_ARGUMENT] =
		"TRANSFER_TIMEOUT_CALLBACK_ARGUMENT",
	[GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_RESULT] =
		"TRANSFER_TIMEOUT_CALLBACK_RESULT",
};

static grpc_error_t refuse_name(grpc_session_attr_name_t_np name)
{
	if ((u32)name >= sizeof(names) / sizeof(names[0]))
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no attribute %d", (int)name);
	return gridrpc_error_set(GRPC_RPC_REFUSED,
				 "GRPC_SESSION_ATTR_%s has no meaning here: a "
				 "broken connection is found by itself, and "
				 "GRPC_SESSION_ATTR_SESSION_TIMEOUT limits the "
				 "whole call",
				 names[name]);
}

static grpc_error_t refuse_null(void)
{
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
				 "the attributes or a value is NULL");
}

/* `error`: whether the handle is one. */
static grpc_error_t initialize_attr(grpc_session_attr_t_np *attr,
				    grpc_error_t error)
{
	if (error)
		return error;
	if (!attr)
		return refuse_null();
	memset(attr, 0, sizeof(*attr));
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_session_attr_initialize_np(grpc_function_handle_t *handle,
					     grpc_session_attr_t_np *attr)
{
	return initialize_attr(attr, grpc_function_handle_is_ready_np(handle));
}

grpc_error_t grpc_session_attr_initialize_with_object_handle_np(
	grpc_object_handle_t_np *handle, grpc_session_attr_t_np *attr)
{
	return initialize_attr(attr, grpc_object_handle_is_ready_np(handle));
}

grpc_error_t grpc_session_attr_destruct_np(grpc_session_attr_t_np *attr)
{
	return initialize_attr(attr, GRPC_NO_ERROR);
}

grpc_error_t grpc_session_attr_set_np(grpc_session_attr_t_np *attr,
				      grpc_session_attr_name_t_np name,
				      void *value)
{
	int seconds;

	if (!attr || !value)
		return refuse_null();
	switch (name) {
	case GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER:
		attr->transfer = *(const grpc_argument_transfer_t_np *)value;
		return GRPC_NO_ERROR;
	case GRPC_SESSION_ATTR_SESSION_TIMEOUT:
		seconds = *(const int *)value;
		if (seconds < 0)
			return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
						 "a time limit of %d s",
						 seconds);
		attr->timeout = seconds;
		return GRPC_NO_ERROR;
	default:
		return refuse_name(name);
	}
}

grpc_error_t grpc_session_attr_get_np(grpc_session_attr_t_np *attr,
				      grpc_session_attr_name_t_np name,
				      void **value)
{
	const void *from;

	if (!attr || !value)
		return refuse_null();
	*value = NULL;
	if (name == GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER)
		from = &attr->transfer;
	else if (name == GRPC_SESSION_ATTR_SESSION_TIMEOUT)
		from = &attr->timeout;
	else
		return refuse_name(name);
	*value = malloc(sizeof(int));
	if (!*value)
		return gridrpc_error_memory();
	memcpy(*value, from, sizeof(int));
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_session_attr_release_np(void *value)
{
	free(value);
	return GRPC_NO_ERROR;
}

/* Calls -------------------------------------------------------------------- */

/* When a call that begins now is late; 0: never. */
static u64 deadline_of(const grpc_session_attr_t_np *attr)
{
	return attr && attr->timeout
		       ? grid_clock() + (u64)attr->timeout * SECOND
		       : 0;
}

/* Of a session that was made, or not: `error` says so. */
static grpc_error_t limit_session(grpc_error_t error, grpc_sessionid_t id,
				  u64 deadline)
{
	return error || !deadline ? error : gridrpc_session_limit(id, deadline);
}

static grpc_error_t finish_session(grpc_error_t error, grpc_sessionid_t id,
				   u64 deadline)
{
	grpc_error_t why;

	if (error)
		return error;
	error = limit_session(error, id, deadline);
	if (error)
		grpc_cancel(id);
	why = grpc_wait(id);
	if (error || !why)
		return error ? error : gridrpc_data_deliver(gridrpc_client());
	return gridrpc_session_past(id) == GRPC_TIMEOUT_NP ? GRPC_TIMEOUT_NP
							   : why;
}

static grpc_error_t call_within(grpc_function_handle_t *handle,
				const grpc_session_attr_t_np *attr,
				const grpc_arg_stack_t *stack, va_list *args)
{
	u64 deadline = deadline_of(attr);
	grpc_sessionid_t id = GRPC_SESSIONID_VOID;
	grpc_error_t error;

	if (!attr)
		return refuse_null();
	error = gridrpc_call_async(handle, &id, stack, args);
	return finish_session(error, id, deadline);
}

static grpc_error_t call_async_within(grpc_function_handle_t *handle,
				      grpc_sessionid_t *id,
				      const grpc_session_attr_t_np *attr,
				      const grpc_arg_stack_t *stack,
				      va_list *args)
{
	u64 deadline = deadline_of(attr);
	grpc_error_t error;

	if (!attr || !id)
		return refuse_null();
	error = gridrpc_call_async(handle, id, stack, args);
	return limit_session(error, *id, deadline);
}

static grpc_error_t invoke_within(grpc_object_handle_t_np *handle,
				  const char *method,
				  const grpc_session_attr_t_np *attr,
				  const grpc_arg_stack_t *stack, va_list *args)
{
	u64 deadline = deadline_of(attr);
	grpc_sessionid_t id = GRPC_SESSIONID_VOID;
	grpc_error_t error;

	if (!attr)
		return refuse_null();
	error = gridrpc_invoke_async(handle, method, &id, stack, args);
	return finish_session(error, id, deadline);
}

static grpc_error_t
invoke_async_within(grpc_object_handle_t_np *handle, const char *method,
		    grpc_sessionid_t *id, const grpc_session_attr_t_np *attr,
		    const grpc_arg_stack_t *stack, va_list *args)
{
	u64 deadline = deadline_of(attr);
	grpc_error_t error;

	if (!attr || !id)
		return refuse_null();
	error = gridrpc_invoke_async(handle, method, id, stack, args);
	return limit_session(error, *id, deadline);
}

grpc_error_t grpc_call_with_attr_np(grpc_function_handle_t *handle,
				    grpc_session_attr_t_np *attr, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, attr);
	error = call_within(handle, attr, NULL, &args);
	va_end(args);
	return error;
}

grpc_error_t grpc_call_async_with_attr_np(grpc_function_handle_t *handle,
					  grpc_sessionid_t *id,
					  grpc_session_attr_t_np *attr, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, attr);
	error = call_async_within(handle, id, attr, NULL, &args);
	va_end(args);
	return error;
}

int grpc_call_arg_stack_with_attr_np(grpc_function_handle_t *handle,
				     grpc_session_attr_t_np *attr,
				     grpc_arg_stack_t *stack)
{
	return call_within(handle, attr, stack, NULL) ? -1 : 0;
}

int grpc_call_arg_stack_async_with_attr_np(grpc_function_handle_t *handle,
					   grpc_session_attr_t_np *attr,
					   grpc_arg_stack_t *stack)
{
	grpc_sessionid_t id;

	return call_async_within(handle, &id, attr, stack, NULL) ? -1 : 0;
}

grpc_error_t grpc_invoke_with_attr_np(grpc_object_handle_t_np *handle,
				      char *method,
				      grpc_session_attr_t_np *attr, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, attr);
	error = invoke_within(handle, method, attr, NULL, &args);
	va_end(args);
	return error;
}

grpc_error_t grpc_invoke_async_with_attr_np(grpc_object_handle_t_np *handle,
					    char *method, grpc_sessionid_t *id,
					    grpc_session_attr_t_np *attr, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, attr);
	error = invoke_async_within(handle, method, id, attr, NULL, &args);
	va_end(args);
	return error;
}

int grpc_invoke_arg_stack_with_attr_np(grpc_object_handle_t_np *handle,
				       char *method,
				       grpc_session_attr_t_np *attr,
				       grpc_arg_stack_t *stack)
{
	return invoke_within(handle, method, attr, stack, NULL) ? -1 : 0;
}

int grpc_invoke_arg_stack_async_with_attr_np(grpc_object_handle_t_np *handle,
					     char *method,
					     grpc_session_attr_t_np *attr,
					     grpc_arg_stack_t *stack)
{
	grpc_sessionid_t id;

	return invoke_async_within(handle, method, &id, attr, stack, NULL) ? -1
									   : 0;
}
