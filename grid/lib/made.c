// SPDX-License-Identifier: MIT
/*
 * Objects of classes for OmniRPC programs, in C and in Fortran. Owns the
 * program's objects, in a list that `lock` guards. A program's pointer is
 * looked for in it, so one that is not an object's, or no longer, does no harm.
 */
#include "client.h"

#include <stdlib.h>

struct made {
	struct grid_object object;
	struct made *next; /* the one made before */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *first;

/* The lock is held. The place in the list, which may be at its end. */
static struct made **find_made(const void *object)
{
	struct made **at = &first;

	while (*at && *at != object)
		at = &(*at)->next;
	return at;
}

static int refuse_object(void)
{
	return grid_error_set(OMRPC_ERROR,
			      "the object was not made by OmniRpcCreateObject, "
			      "or it was destroyed");
}

int grid_made_get(const void *object, struct grid_object *o)
{
	const struct made *found;

	pthread_mutex_lock(&lock);
	found = *find_made(object);
	if (found)
		*o = found->object;
	pthread_mutex_unlock(&lock);
	return found ? 0 : refuse_object();
}

void grid_made_free(void)
{
	struct made *o;

	pthread_mutex_lock(&lock);
	while ((o = first)) {
		first = o->next;
		free(o);
	}
	pthread_mutex_unlock(&lock);
}

static OmniRpcObject make_object(const char *host, const char *name)
{
	struct grid_client *c = grid_session();
	struct made *o;

	if (!c)
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	if (grid_object_make(c, &o->object, host, name)) {
		free(o);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	o->next = first;
	first = o;
	pthread_mutex_unlock(&lock);
	return o;
}

OmniRpcObject OmniRpcCreateObject(const char *host, const char *name)
{
	OmniRpcObject object = make_object(host, name);

	if (!object) {
		grid_report_unsent("", name);
		grid_end_failed(grid_error_code());
	}
	return object;
}

int OmniRpcDestroyObject(OmniRpcObject object)
{
	struct grid_client *c = grid_session();
	struct made **at, *o;

	if (!c)
		return grid_end_failed(OMRPC_ERROR);
	pthread_mutex_lock(&lock);
	at = find_made(object);
	o = *at;
	if (o)
		*at = o->next;
	pthread_mutex_unlock(&lock);
	if (!o)
		return grid_end_failed(refuse_object());
	grid_object_end(c, &o->object);
	free(o);
	return OMRPC_OK;
}

static struct skep_request *start_method(OmniRpcObject object,
					 const char *method, va_list args)
{
	struct grid_client *c = grid_session();
	struct skep_request *r = NULL;
	struct grid_object o;
	va_list values;

	if (!c || grid_made_get(object, &o))
		return NULL;
	va_copy(values, args);
	r = grid_method_start(c, &o, method, &values, NULL, 0);
	va_end(values);
	return r;
}

OmniRpcRequest OmniRpcCallAsyncByObjectV(OmniRpcObject object,
					 const char *method, va_list args)
{
	struct skep_request *r = start_method(object, method, args);

	if (!r) {
		grid_report_unsent("", method);
		grid_end_failed(grid_error_code());
	}
	return r;
}

OmniRpcRequest OmniRpcCallAsyncByObject(OmniRpcObject object,
					const char *method, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, method);
	r = OmniRpcCallAsyncByObjectV(object, method, args);
	va_end(args);
	return r;
}

int OmniRpcCallByObjectV(OmniRpcObject object, const char *method, va_list args)
{
	OmniRpcRequest r = OmniRpcCallAsyncByObjectV(object, method, args);
	int code;

	if (!r)
		return grid_error_code();
	code = OmniRpcWait(r);
	OmniRpcDestroyRequest(r);
	return code;
}

int OmniRpcCallByObject(OmniRpcObject object, const char *method, ...)
{
	va_list args;
	int code;

	va_start(args, method);
	code = OmniRpcCallByObjectV(object, method, args);
	va_end(args);
	return code;
}
