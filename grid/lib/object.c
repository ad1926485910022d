// SPDX-License-Identifier: MIT
/*
 * Objects of classes: docs/design/callbacks.md. Owns nothing; the hub knows an
 * object by the number of the request that made it, which no other has.
 */
#include "client.h"

#include <string.h>

int grid_function_refuse_method(const struct skep_handle *m, u32 f)
{
	const struct skep_function *function = &m->module.function[f];
	const struct skep_function *class =
		grid_module_state(&m->module, function);

	return class ? grid_error_set(
			       OMRPC_E_REFUSED,
			       "%s.%s is a method of the class %s, which has "
			       "state: make an object of it",
			       m->name, function->name, class->name)
		     : 0;
}

/* The module of "module/class", and the class. NULL with the error set. */
static struct skep_handle *find_class(struct grid_client *c, const char *server,
				      const char *name, int *class)
{
	const char *slash = strpbrk(name, "/.");
	struct skep_handle *m;

	if (!slash || slash == name || !slash[1]) {
		grid_error_set(OMRPC_E_NO_MODULE,
			       "a class is named by its module and its name: "
			       "module/class, not %.80s",
			       name);
		return NULL;
	}
	m = grid_module_bind(c, name, (u64)(slash - name));
	if (m && server && *server)
		m = grid_module_bind_host(c, server, m->name);
	*class = m ? grid_module_class(&m->module, slash + 1) : 0;
	if (*class >= 0)
		return m;
	grid_error_set(OMRPC_E_NO_FUNCTION, "module %s has no class %.80s",
		       m->name, slash + 1);
	return NULL;
}

int grid_object_start(struct grid_client *c, struct grid_object *o,
		      struct skep_handle *module, u32 class)
{
	struct skep_object ask = {module->number, class};
	struct skep_request *r;
	struct grid_kept *kept;
	int code;

	code = grid_kept_new(c, SKEP_OBJECT, &ask, sizeof(ask), 0, &kept);
	if (!kept)
		return code ? code
			    : grid_error_set(OMRPC_E_NO_MEMORY,
					     "out of memory for an object");
	r = grid_request_new(c, GRID_OBJECT, NULL);
	if (!r) {
		grid_kept_free(kept);
		return grid_error_code();
	}
	*o = (struct grid_object){module, class, r->id};
	if (grid_request_send(c, r, kept, NULL))
		return grid_request_abandon(c, r);
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

int grid_object_make(struct grid_client *c, struct grid_object *o,
		     const char *server, const char *name)
{
	int class;
	struct skep_handle *m = find_class(c, server, name, &class);

	return m ? grid_object_start(c, o, m, (u32) class) : grid_error_code();
}

int grid_object_method(const struct grid_object *o, const char *name)
{
	const struct grid_module *m = &o->module->module;
	int f = grid_module_method(m, o->class, name);

	return f >= 0 ? f
		      : grid_error_set(
				OMRPC_E_NO_FUNCTION,
				"the class %s of module %s has no method %s",
				m->function[o->class].name, o->module->name,
				name);
}

/* If it cannot be sent, the hub has lost the object, or the session is over. */
void grid_object_end(struct grid_client *c, const struct grid_object *o)
{
	if (grid_stream_begin(&c->stream, sizeof(struct skep_frame)))
		return;
	grid_stream_next(&c->stream, SKEP_OBJECT, SKEP_LAST, o->number, 0);
	grid_stream_end(&c->stream);
}
