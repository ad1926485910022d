// SPDX-License-Identifier: MIT
/*
 * Ninf-G's remote objects. Owns the objects of the program's handles, in a
 * list that `lock` guards; a handle refers to one of them.
 */
#include "gridrpc.h"

#include <stdarg.h>
#include <stdlib.h>

struct made {
	struct grid_object object;
	u64 mark;
	struct made *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *first;
static u64 mark = 0x6a626f68616e646cul; /* no handle's memory by chance */

/* The lock is held. The place in the list, which may be at its end. */
static struct made **find_made(const grpc_object_handle_t_np *handle)
{
	struct made **at = &first;

	while (*at && !(handle && (*at)->mark == handle->mark))
		at = &(*at)->next;
	return at;
}

static grpc_error_t refuse_handle(void)
{
	return gridrpc_error_set(GRPC_INVALID_FUNCTION_HANDLE,
				 "the handle was not made by "
				 "grpc_object_handle_default_np or _init_np, "
				 "or it was destructed");
}

grpc_error_t gridrpc_object_get(const grpc_object_handle_t_np *handle,
				struct grid_object *object)
{
	const struct made *o;

	if (!gridrpc_client())
		return GRPC_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	o = *find_made(handle);
	if (o)
		*object = o->object;
	pthread_mutex_unlock(&lock);
	return o ? GRPC_NO_ERROR : refuse_handle();
}

void gridrpc_object_clear(void)
{
	struct made *o;

	pthread_mutex_lock(&lock);
	while ((o = first)) {
		first = o->next;
		free(o);
	}
	pthread_mutex_unlock(&lock);
}

grpc_error_t grpc_object_handle_init_np(grpc_object_handle_t_np *handle,
					char *server, char *class_name)
{
	struct grid_client *c = gridrpc_client();
	struct made *o;
	int code;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	if (!handle || !class_name)
		return gridrpc_error_set(GRPC_INVALID_FUNCTION_HANDLE,
					 "the handle or the class is NULL");
	o = calloc(1, sizeof(*o));
	if (!o)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "out of memory for an object");
	code = grid_object_make(c, &o->object, server, class_name);
	if (code) {
		free(o);
		return gridrpc_error_of(code);
	}
	pthread_mutex_lock(&lock);
	handle->mark = o->mark = ++mark;
	o->next = first;
	first = o;
	pthread_mutex_unlock(&lock);
	return GRPC_NO_ERROR;
}

grpc_error_t grpc_object_handle_default_np(grpc_object_handle_t_np *handle,
					   char *class_name)
{
	return grpc_object_handle_init_np(handle, NULL, class_name);
}

grpc_error_t grpc_object_handle_destruct_np(grpc_object_handle_t_np *handle)
{
	struct grid_client *c = gridrpc_client();
	struct made **at, *o;

	if (!c)
		return GRPC_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	at = find_made(handle);
	o = *at;
	if (o) {
		*at = o->next;
		handle->mark = 0;
	}
	pthread_mutex_unlock(&lock);
	if (!o)
		return refuse_handle();
	grid_object_end(c, &o->object);
	free(o);
	return GRPC_NO_ERROR;
}

grpc_error_t
grpc_object_handle_array_destruct_np(grpc_object_handle_t_np *handles,
				     size_t count)
{
	grpc_error_t one, error = handles && count ? 0 : refuse_handle();
	size_t i;

	for (i = 0; handles && i < count; i++) {
		one = grpc_object_handle_destruct_np(&handles[i]);
		error = error ? error : one;
	}
	return error;
}

grpc_error_t grpc_object_handle_array_init_np(grpc_object_handle_t_np *handles,
					      size_t count, char *server,
					      char *class_name)
{
	grpc_error_t error = handles && count ? 0 : refuse_handle();
	size_t i;

	for (i = 0; i < count && !error; i++)
		error = grpc_object_handle_init_np(&handles[i], server,
						   class_name);
	while (error && handles && i-- > 1)
		grpc_object_handle_destruct_np(&handles[i - 1]);
	return error;
}

grpc_error_t
grpc_object_handle_array_default_np(grpc_object_handle_t_np *handles,
				    size_t count, char *class_name)
{
	return grpc_object_handle_array_init_np(handles, count, NULL,
						class_name);
}

/* Methods ------------------------------------------------------------------ */

/* With the values of `stack`, or else of `args`. */
static grpc_error_t start_method(struct skep_request **request,
				 const grpc_object_handle_t_np *handle,
				 const char *method,
				 const grpc_arg_stack_t *stack, va_list *args)
{
	struct grid_client *c = gridrpc_client();
	struct grid_object object;
	void *const *values = NULL;
	grpc_error_t error = gridrpc_object_get(handle, &object);
	u32 count = 0;

	if (error)
		return error;
	if (!method || (!args && !stack))
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "the method or the argument stack is "
					 "NULL");
	if (stack)
		values = gridrpc_stack_values(stack, &count);
	*request = grid_method_start(c, &object, method, args, values, count);
	return *request ? GRPC_NO_ERROR : gridrpc_error_of(grid_error_code());
}

static grpc_error_t invoke_method(grpc_object_handle_t_np *handle,
				  const char *method,
				  const grpc_arg_stack_t *stack, va_list *args)
{
	struct skep_request *r;
	grpc_error_t error = start_method(&r, handle, method, stack, args);

	return error ? error : gridrpc_call_finish(r);
}

grpc_error_t gridrpc_invoke_async(grpc_object_handle_t_np *handle,
				  const char *method, grpc_sessionid_t *id,
				  const grpc_arg_stack_t *stack, va_list *args)
{
	struct skep_request *r;
	grpc_error_t error;

	if (!id)
		return gridrpc_error_set(GRPC_OTHER_ERROR_CODE,
					 "there is no place for the session");
	*id = GRPC_SESSIONID_VOID;
	error = start_method(&r, handle, method, stack, args);
	return error ? error
		     : gridrpc_call_keep(
			       r, (struct gridrpc_maker){NULL, handle}, id);
}

grpc_error_t grpc_invoke_np(grpc_object_handle_t_np *handle, char *method, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, method);
	error = invoke_method(handle, method, NULL, &args);
	va_end(args);
	return error;
}

grpc_error_t grpc_invoke_async_np(grpc_object_handle_t_np *handle, char *method,
				  grpc_sessionid_t *id, ...)
{
	grpc_error_t error;
	va_list args;

	va_start(args, id);
	error = gridrpc_invoke_async(handle, method, id, NULL, &args);
	va_end(args);
	return error;
}

int grpc_invoke_arg_stack_np(grpc_object_handle_t_np *handle, char *method,
			     grpc_arg_stack_t *stack)
{
	return invoke_method(handle, method, stack, NULL) ? -1 : 0;
}

int grpc_invoke_arg_stack_async_np(grpc_object_handle_t_np *handle,
				   char *method, grpc_arg_stack_t *stack)
{
	grpc_sessionid_t id;

	return gridrpc_invoke_async(handle, method, &id, stack, NULL) ? -1 : 0;
}
