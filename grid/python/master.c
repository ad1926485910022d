// SPDX-License-Identifier: MIT
/* The Python package's library: grid/lib as ctypes can call it. Owns nothing.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT_MAX 64 /* that one skep_python_next gives */

u32 skep_python_revision(void)
{
	return SKEP_PYTHON_REVISION;
}

const char *skep_python_error(s32 *code)
{
	*code = grid_error_code();
	return OmniRpcLastErrorText();
}

/* The session ------------------------------------------------------------- */

struct grid_client *skep_python_open(const char *socket)
{
	struct grid_client *c;

	if (grid_client_open(&c, socket))
		return NULL;
	c->quiet = 1;
	return c;
}

void skep_python_end(struct grid_client *c)
{
	grid_client_end(c);
}

void skep_python_forget(struct grid_client *c)
{
	close(c->stream.fd);
}

void skep_python_close(struct grid_client *c)
{
	grid_client_close(c);
}

struct skep_handle *skep_python_bind(struct grid_client *c, const char *name)
{
	return grid_module_bind(c, name, strlen(name));
}

const void *skep_python_manifest(const struct skep_handle *m, u64 *bytes)
{
	const struct skep_module *head = &m->module.head;

	*bytes = sizeof(*head) +
		 head->functions * sizeof(struct skep_function) +
		 head->params * sizeof(struct skep_param) + head->code;
	return m->bytes;
}

/* Arguments --------------------------------------------------------------- */

static void set_value(struct grid_value *v, const struct skep_param *p,
		      void *at, u64 count)
{
	u64 size = grid_type_size(p->type);

	/* What is stored is not here, so no size can be read from it. */
	if (p->dims && python_data_is(at))
		return;
	v->at = at;
	v->count = count;
	if (at && !p->dims && size && size <= 8 && p->mode & SKEP_IN)
		memcpy(&v->bits, at, size);
}

s32 skep_python_sizes(const struct skep_handle *m, u32 f, void *const *pointer,
		      const u64 *count, u32 at, u64 size[SKEP_DIMS_MAX])
{
	const struct skep_function *function = &m->module.function[f];
	const struct skep_param *p = &m->module.param[function->first];
	struct grid_shape shape[SKEP_PARAMS_MAX] = {0};
	struct grid_call c;
	u64 elements;
	u32 i;

	grid_call_init(&c, &m->module, f);
	c.shape = shape;
	for (i = 0; i < at; i++)
		set_value(&c.value[i], &p[i], pointer[i], count[i]);
	if (grid_call_count(&c, at, &elements))
		return grid_error_set(OMRPC_E_ARGUMENTS,
				      "argument %s of %s.%s: %s", p[at].name,
				      m->name, function->name, c.why);
	memcpy(size, shape[at].size, sizeof(shape[at].size));
	return OMRPC_OK;
}

/* Calls ------------------------------------------------------------------- */

struct skep_request *skep_python_call(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      u64 object, void *const *pointer,
				      u32 count, u64 tag,
				      const struct grid_hook *hook)
{
	return grid_call_start_hooked(c, m, f, object, pointer, count, tag,
				      hook);
}

u64 skep_python_object(struct grid_client *c, struct skep_handle *m, u32 class)
{
	struct grid_object o;

	return grid_object_start(c, &o, m, class) ? 0 : o.number;
}

void skep_python_object_end(struct grid_client *c, struct skep_handle *m,
			    u32 class, u64 number)
{
	struct grid_object o = {m, class, number};

	grid_object_end(c, &o);
}

struct skep_request *skep_python_send(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      const struct iovec *piece, u32 pieces,
				      u64 most, u64 tag)
{
	struct grid_bytes b = {piece, pieces};

	return grid_bytes_start(c, m, f, &b, most, tag);
}

s32 skep_python_initialize(struct grid_client *c, const struct skep_handle *m,
			   u32 f, const struct iovec *piece, u32 pieces)
{
	struct grid_bytes b = {piece, pieces};
	struct skep_request *r = grid_bytes_start(c, m, f, &b, 0, 0);
	s32 code;

	if (!r)
		return grid_error_code();
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

/* Ends -------------------------------------------------------------------- */

static void fill_ended(struct skep_python_ended *e, struct skep_request *r)
{
	memset(e, 0, sizeof(*e));
	e->request = r;
	e->tag = r->tag;
	e->text = r->text ? r->text : "the call failed";
	e->result = r->result;
	e->result_bytes = r->result_bytes;
	e->code = r->code;
	e->substrate = r->info.substrate;
	e->attempt = r->info.attempt;
	e->exec_ns = r->info.exec_ns;
	e->wall_ns = r->info.wall_ns;
	e->bytes_in = r->info.bytes_in;
	e->bytes_out = r->info.bytes_out;
	memcpy(e->node, r->info.node, sizeof(e->node));
}

u32 skep_python_next(struct grid_client *c, struct skep_python_ended *ended,
		     u32 room)
{
	struct skep_request *list[NEXT_MAX];
	u32 i, n;

	n = grid_request_next(c, list, room < NEXT_MAX ? room : NEXT_MAX);
	for (i = 0; i < n; i++)
		fill_ended(&ended[i], list[i]);
	return n;
}

s32 skep_python_cancel(struct grid_client *c, struct skep_request *r)
{
	return grid_request_cancel(c, r);
}

u8 *skep_python_take(struct skep_request *r)
{
	u8 *result = r->result;

	r->result = NULL;
	return result;
}

void skep_python_drop(void *result)
{
	free(result);
}

void skep_python_free(struct grid_client *c, struct skep_request *r)
{
	grid_request_free(c, r);
}
