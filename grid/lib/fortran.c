// SPDX-License-Identifier: MIT
/*
 * OmniRPC's subroutines for Fortran 77, each under both names that compilers
 * give it, and the functions that the module skep of skep.f90 calls. A Fortran
 * program passes all arguments by address, and stores requests and handles in
 * INTEGER variables. This file owns the table of their numbers; `lock` guards
 * it.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 256
#define NUMBERS_MAX 0x100000
#define GENERATIONS 0x400
#define NUMBER_MARK 0x40000000 /* small integers are no valid numbers */

/* A number consists of the mark, the entry's generation, and its index. */
struct entry {
	void *what;	   /* request or handle; NULL: the entry is free */
	const int *holder; /* the program's variable */
	int generation, waited;
};

static struct entry *table;
static int entries, free_entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int report_failure(const char *subroutine)
{
	grid_report_unsent("", subroutine);
	return grid_end_failed(grid_error_code());
}

/* Numbers ----------------------------------------------------------------- */

static struct entry *find_entry(int number)
{
	int i = number & (NUMBERS_MAX - 1);
	struct entry *e;

	if ((number & ~(NUMBER_MARK - 1)) != NUMBER_MARK || i >= entries)
		return NULL;
	e = &table[i];
	if (!e->what || e->generation != (number - NUMBER_MARK) / NUMBERS_MAX)
		return NULL;
	return e;
}

static struct entry *new_entry(void)
{
	struct entry *more;
	int i, room = entries ? 2 * entries : 64;

	for (i = 0; free_entries && i < entries; i++) {
		if (!table[i].what) {
			free_entries--;
			return &table[i];
		}
	}
	if (room > NUMBERS_MAX)
		return NULL;
	more = realloc(table, (size_t)room * sizeof(*table));
	if (!more)
		return NULL;
	table = more;
	memset(table + entries, 0, (size_t)(room - entries) * sizeof(*table));
	i = entries;
	free_entries = room - entries - 1;
	entries = room;
	return &table[i];
}

/* Stores the number of `what`, which may be NULL, in the program's variable. A
 * request whose number was in the variable is freed if it was waited for. */
static void store_number(int *variable, void *what)
{
	struct entry *e;
	void *old = NULL;

	pthread_mutex_lock(&lock);
	e = find_entry(*variable);
	if (e && e->holder == variable && e->waited) {
		old = e->what;
		e->what = NULL;
		free_entries++;
	}
	*variable = 0;
	e = what ? new_entry() : NULL;
	if (e) {
		e->what = what;
		e->holder = variable;
		e->waited = 0;
		e->generation = (e->generation + 1) % GENERATIONS;
		*variable = NUMBER_MARK + e->generation * NUMBERS_MAX +
			    (int)(e - table);
	}
	pthread_mutex_unlock(&lock);
	if (old)
		OmniRpcDestroyRequest(old);
	if (what && !e)
		grid_error_set(OMRPC_E_NO_MEMORY,
			       "there are too many requests, or no memory");
}

/* Looks up a number; NULL with the error set. `waited`: the program has the
 * result. */
static void *take_number(int number, const char *subroutine, int waited)
{
	struct entry *e;
	void *what;

	pthread_mutex_lock(&lock);
	e = find_entry(number);
	what = e ? e->what : NULL;
	if (e && waited)
		e->waited = 1;
	pthread_mutex_unlock(&lock);
	if (!what)
		grid_error_set(OMRPC_ERROR,
			       "%s was given %d, which is no request or handle",
			       subroutine, number);
	return what;
}

/* The number is no longer valid. */
static void drop_number(int number)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(number);
	if (e) {
		e->what = NULL;
		free_entries++;
	}
	pthread_mutex_unlock(&lock);
}

static int is_number(int number)
{
	int found;

	pthread_mutex_lock(&lock);
	found = find_entry(number) != NULL;
	pthread_mutex_unlock(&lock);
	return found;
}

/*
 * The distance of the numbers, in integers of 4 bytes. INTEGER variables have 4
 * bytes, or 8 in programs for OmniRPC on 64-bit computers, which needed room
 * for a pointer. Only 4 are written; so the distance is 1 or 2.
 */
static int find_step(int count, const int *number)
{
	int i;

	for (i = 0; i < count && is_number(number[i]); i++)
		;
	return i == count ? 1 : 2;
}

/* Calls ------------------------------------------------------------------- */

/* A name ends at a * or a zero byte. */
static int read_name(char *to, const char *from)
{
	size_t len = 0;

	while (len < NAME_ROOM && from[len] && from[len] != '*')
		len++;
	if (len >= NAME_ROOM)
		return grid_error_set(OMRPC_ERROR,
				      "a name must end in *, as in 'name*'");
	memcpy(to, from, len);
	to[len] = 0;
	return 0;
}

/* Fortran has lengths where C has zeros, so no string reaches a subroutine. */
static int refuse_subroutine(const struct skep_handle *m,
			     const struct skep_param *p, const char *function)
{
	const struct skep_function *g = &m->module.function[p->refers];
	const struct skep_param *q = &m->module.param[g->first];
	u32 i;

	for (i = 0; i < g->params; i++, q++) {
		if (grid_type_text(q->type))
			return grid_error_set(
				OMRPC_E_ARGUMENTS,
				"argument %s of %s.%s: a Fortran subroutine "
				"cannot get the string %s; declare a char "
				"array with its size",
				p->name, m->name, function, q->name);
	}
	return 0;
}

/* Refuses parameters that Fortran cannot pass: pointers to characters and C
 * files. */
static int refuse_param(const struct skep_handle *m, const struct skep_param *p,
			const char *function)
{
	if (p->type == SKEP_MASTER_FUNCTION)
		return refuse_subroutine(m, p, function);
	if (!grid_type_text(p->type) ||
	    (!p->dims && (p->type == SKEP_FILENAME ||
			  (p->type == SKEP_STRING && p->mode == SKEP_IN))))
		return 0;
	return grid_error_set(
		OMRPC_E_ARGUMENTS,
		"argument %s of %s.%s: a Fortran program cannot pass it; "
		"declare a char array or a filename",
		p->name, m->name, function);
}

/* Starts a call with the addresses of its arguments, or that of a method of
 * the object with this number. */
static struct skep_request *start_listed(const struct skep_handle *m, int f,
					 u64 object, va_list args)
{
	const struct skep_function *function = &m->module.function[f];
	void *at[SKEP_PARAMS_MAX];
	u32 i;

	for (i = 0; i < function->params; i++) {
		if (refuse_param(m, &m->module.param[function->first + i],
				 function->name))
			return NULL;
		at[i] = va_arg(args, void *);
	}
	return grid_call_start_fortran(grid_session(), m, (u32)f, object, at,
				       NULL, function->params);
}

static int init_refused(const struct skep_handle *m, int f)
{
	if (!(m->module.function[f].flags & SKEP_FUNCTION_INIT))
		return 0;
	return grid_error_set(OMRPC_E_NO_FUNCTION,
			      "%s is module %s's Initialize: use "
			      "omnirpc_module_init",
			      m->module.function[f].name, m->name);
}

static struct skep_request *start_named(const char *text, va_list args)
{
	struct grid_client *c = grid_session();
	struct skep_handle *m;
	char name[NAME_ROOM];
	int f;

	if (!c || read_name(name, text))
		return NULL;
	f = grid_module_function(c, name, &m);
	if (f < 0 || init_refused(m, f))
		return NULL;
	return start_listed(m, f, 0, args);
}

static struct skep_request *start_handle(int number, const char *text,
					 const char *subroutine, va_list args)
{
	struct skep_handle *m = take_number(number, subroutine, 0);
	char name[NAME_ROOM];
	int f;

	if (!grid_session() || !m || read_name(name, text))
		return NULL;
	f = grid_handle_function(m, name);
	if (f < 0 || init_refused(m, f))
		return NULL;
	return start_listed(m, f, 0, args);
}

static struct skep_request *start_method(int number, const char *text,
					 const char *subroutine, va_list args)
{
	void *made = take_number(number, subroutine, 0);
	struct grid_object o;
	char name[NAME_ROOM];
	int f;

	if (!grid_session() || !made || grid_made_get(made, &o) ||
	    read_name(name, text))
		return NULL;
	f = grid_object_method(&o, name);
	return f < 0 ? NULL : start_listed(o.module, f, o.number, args);
}

static int finish_call(struct skep_request *r, const char *subroutine)
{
	int code;

	if (!r)
		return report_failure(subroutine);
	code = OmniRpcWait(r);
	OmniRpcDestroyRequest(r);
	return code;
}

static void keep_number(int *variable, struct skep_request *r,
			const char *subroutine)
{
	store_number(variable, r);
	if (!*variable)
		report_failure(subroutine);
}

/* The subroutines --------------------------------------------------------- */

#define SUBROUTINE(name, ...)                                                  \
	void name##_(__VA_ARGS__);                                             \
	void name##__(__VA_ARGS__) __attribute__((alias(#name "_")));          \
	void name##_(__VA_ARGS__)

SUBROUTINE(omnirpc_init, void)
{
	OmniRpcInit(NULL, NULL);
}

SUBROUTINE(omnirpc_finalize, void)
{
	OmniRpcFinalize();
	pthread_mutex_lock(&lock);
	free(table);
	table = NULL;
	entries = free_entries = 0;
	pthread_mutex_unlock(&lock);
}

SUBROUTINE(omnirpc_call, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	finish_call(start_named(name, args), "omnirpc_call");
	va_end(args);
}

SUBROUTINE(omnirpc_call_async, int *request, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	keep_number(request, start_named(name, args), "omnirpc_call_async");
	va_end(args);
}

SUBROUTINE(omnirpc_call_by_handle, const int *handle, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	finish_call(start_handle(*handle, name, "omnirpc_call_by_handle", args),
		    "omnirpc_call_by_handle");
	va_end(args);
}

SUBROUTINE(omnirpc_call_async_by_handle, int *request, const int *handle,
	   const char *name, ...)
{
	static const char self[] = "omnirpc_call_async_by_handle";
	va_list args;

	va_start(args, name);
	keep_number(request, start_handle(*handle, name, self, args), self);
	va_end(args);
}

SUBROUTINE(omnirpc_call_by_object, const int *object, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	finish_call(start_method(*object, name, "omnirpc_call_by_object", args),
		    "omnirpc_call_by_object");
	va_end(args);
}

SUBROUTINE(omnirpc_call_async_by_object, int *request, const int *object,
	   const char *name, ...)
{
	static const char self[] = "omnirpc_call_async_by_object";
	va_list args;

	va_start(args, name);
	keep_number(request, start_method(*object, name, self, args), self);
	va_end(args);
}

SUBROUTINE(omnirpc_wait, const int *request)
{
	void *r = take_number(*request, "omnirpc_wait", 1);

	if (r)
		OmniRpcWait(r);
	else
		report_failure("omnirpc_wait");
}

SUBROUTINE(omnirpc_probe, const int *request, int *ended)
{
	void *r = take_number(*request, "omnirpc_probe", 0);

	*ended = r ? OmniRpcProbe(r) : report_failure("omnirpc_probe");
}

SUBROUTINE(omnirpc_wait_all, const int *count, const int *request)
{
	int i, step = find_step(*count, request);
	void *r;

	for (i = 0; i < *count; i++) {
		r = take_number(request[i * step], "omnirpc_wait_all", 1);
		if (r)
			OmniRpcWait(r);
		else
			report_failure("omnirpc_wait_all");
	}
}

SUBROUTINE(omnirpc_wait_any, const int *count, const int *request, int *index)
{
	int i, step = find_step(*count, request);
	OmniRpcRequest *list = calloc((size_t)*count + 1, sizeof(*list));

	*index = OMRPC_ERROR;
	if (!list) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		report_failure("omnirpc_wait_any");
		return;
	}
	for (i = 0; i < *count; i++) {
		if (is_number(request[i * step]))
			list[i] = take_number(request[i * step], "", 0);
	}
	*index = OmniRpcWaitAny(*count, list);
	if (*index >= 0)
		take_number(request[*index * step], "", 1);
	free(list);
}

SUBROUTINE(omnirpc_create_handle, int *handle, const char *host,
	   const char *module)
{
	char host_name[NAME_ROOM], module_name[NAME_ROOM];
	OmniRpcHandle h = NULL;

	if (!read_name(host_name, host) && !read_name(module_name, module))
		h = OmniRpcCreateHandle(*host_name ? host_name : NULL,
					module_name);
	keep_number(handle, h, "omnirpc_create_handle");
}

SUBROUTINE(omnirpc_destroy_handle, const int *handle)
{
	void *h = take_number(*handle, "omnirpc_destroy_handle", 0);

	if (!h || OmniRpcDestroyHandle(h))
		report_failure("omnirpc_destroy_handle");
}

SUBROUTINE(omnirpc_create_object, int *object, const char *host,
	   const char *class)
{
	char host_name[NAME_ROOM], class_name[NAME_ROOM];
	OmniRpcObject o = NULL;

	if (!read_name(host_name, host) && !read_name(class_name, class))
		o = OmniRpcCreateObject(host_name, class_name);
	keep_number(object, o, "omnirpc_create_object");
}

SUBROUTINE(omnirpc_destroy_object, const int *object)
{
	void *o = take_number(*object, "omnirpc_destroy_object", 0);

	if (!o || OmniRpcDestroyObject(o))
		report_failure("omnirpc_destroy_object");
	else
		drop_number(*object);
}

SUBROUTINE(omnirpc_module_init, const char *module, ...)
{
	struct grid_client *c = grid_session();
	struct skep_request *r = NULL;
	struct skep_handle *m = NULL;
	char name[NAME_ROOM];
	va_list args;
	int f;

	va_start(args, module);
	if (c && !read_name(name, module))
		m = grid_module_bind(c, name, strlen(name));
	if (m) {
		f = grid_module_initialize(&m->module);
		if (f < 0)
			grid_error_set(OMRPC_E_NO_FUNCTION,
				       "module %s has no Initialize", m->name);
		else
			r = start_listed(m, f, 0, args);
	}
	va_end(args);
	finish_call(r, "omnirpc_module_init");
}

/* For the module skep ----------------------------------------------------- */

/* What skep_procedure of skep.f90 makes. */
#define PROCEDURE_MARK 0x636f7270706b73ll

struct procedure {
	s64 mark;
	void *at;
};

/* Puts the procedures themselves in the place of those. */
static int take_procedures(const struct skep_handle *m, u32 f, void **at,
			   const s64 *elements, u32 count)
{
	const struct skep_function *function = &m->module.function[f];
	const struct skep_param *p = &m->module.param[function->first];
	const struct procedure *given;
	u32 i;

	for (i = 0; i < count && i < function->params; i++, p++) {
		if (p->type != SKEP_MASTER_FUNCTION)
			continue;
		if (refuse_subroutine(m, p, function->name))
			return OMRPC_E_ARGUMENTS;
		given = at[i];
		if (elements[i] != 1 || given->mark != PROCEDURE_MARK)
			return grid_error_set(
				OMRPC_E_ARGUMENTS,
				"argument %s of %s.%s is a subroutine: give "
				"skep_procedure(NAME)",
				p->name, m->name, function->name);
		at[i] = given->at;
	}
	return 0;
}

static struct skep_request *start_given(const struct skep_handle *m, u32 f,
					u64 object, int count,
					void *const *address,
					const s64 *elements)
{
	void *at[SKEP_PARAMS_MAX];

	memcpy(at, address, (size_t)count * sizeof(*at));
	if (take_procedures(m, f, at, elements, (u32)count))
		return NULL;
	return grid_call_start_fortran(grid_session(), m, f, object, at,
				       elements, (u32)count);
}

/*
 * Starts a call with the addresses of its arguments and the number of elements
 * of each. NULL with the error set. `init`: the name is a module's, and its
 * Initialize is called.
 */
void *skep_fortran_start(const char *name, int init, int count,
			 void *const *address, const s64 *elements);
void *skep_fortran_start(const char *name, int init, int count,
			 void *const *address, const s64 *elements)
{
	struct grid_client *c = grid_session();
	struct skep_handle *m = NULL;
	int f = OMRPC_ERROR;

	if (!c)
		return NULL;
	if (init)
		m = grid_module_bind(c, name, strlen(name));
	if (m)
		f = grid_module_initialize(&m->module);
	if (m && f < 0)
		grid_error_set(OMRPC_E_NO_FUNCTION,
			       "module %s has no Initialize", m->name);
	if (!init)
		f = grid_module_function(c, name, &m);
	if (f < 0 || (!init && init_refused(m, f)))
		return NULL;
	return start_given(m, (u32)f, 0, count, address, elements);
}

/* The same of a method of an object. */
void *skep_fortran_method(const void *object, const char *name, int count,
			  void *const *address, const s64 *elements);
void *skep_fortran_method(const void *object, const char *name, int count,
			  void *const *address, const s64 *elements)
{
	struct grid_object o;
	int f;

	if (!grid_session() || grid_made_get(object, &o))
		return NULL;
	f = grid_object_method(&o, name);
	return f < 0 ? NULL
		     : start_given(o.module, (u32)f, o.number, count, address,
				   elements);
}

/* Reports an error of skep_fortran_start, and ends the program unless
 * SKEP_ERRORS says otherwise. */
int skep_fortran_fail(const char *name);
int skep_fortran_fail(const char *name)
{
	return report_failure(name);
}
