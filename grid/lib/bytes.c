// SPDX-License-Identifier: MIT
/*
 * Calls whose argument and result are bytes to this library: functions with the
 * parameters (IN long n, IN char data[n], OUT string result). Bindings that
 * encode values themselves use them. Pieces are sent without a copy. The result
 * is received into its own memory and may contain zero bytes. On the wire they
 * are ordinary calls. Owns nothing.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESULT_ALIGN 64 /* for vector instructions on the result */

static const char zeros[8];

static u64 pad_to_eight(u64 bytes)
{
	return -bytes & 7;
}

static int param_is(const struct skep_param *p, u8 type, u8 mode, u8 dims)
{
	return p->type == type && p->mode == mode && p->dims == dims;
}

/* Initialize has no result. */
static int function_fits(const struct skep_handle *m, u32 f)
{
	const struct skep_function *function = &m->module.function[f];
	const struct skep_param *p = &m->module.param[function->first];
	int is_init = function->flags & SKEP_FUNCTION_INIT;

	return function->params == (is_init ? 2 : 3) &&
	       param_is(&p[0], SKEP_LONG, SKEP_IN, 0) &&
	       param_is(&p[1], SKEP_CHAR, SKEP_IN, 1) &&
	       (is_init || param_is(&p[2], SKEP_STRING, SKEP_OUT, 0));
}

static u64 count_bytes(const struct grid_bytes *b)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < b->pieces; i++)
		bytes += b->piece[i].iov_len;
	return bytes;
}

int grid_bytes_send(const struct grid_bytes *b, struct grid_mover *to)
{
	u64 bytes = count_bytes(b);
	u32 i;
	int err;

	err = to->move(to, &bytes, sizeof(bytes), 0);
	for (i = 0; i < b->pieces && !err; i++)
		err = to->move(to, b->piece[i].iov_base, b->piece[i].iov_len,
			       1);
	return err ? err : to->move(to, (void *)zeros, pad_to_eight(bytes), 0);
}

/* Receives a text: its length, its bytes, zeros up to a multiple of 8. */
int grid_bytes_accept(struct grid_args *a, struct grid_mover *from, u64 length)
{
	u64 bytes, pad;
	u8 away[8];
	int err;

	if (length < sizeof(bytes))
		return -EPROTO;
	err = from->move(from, &bytes, sizeof(bytes), 0);
	if (err)
		return err;
	length -= sizeof(bytes);
	pad = length - bytes;
	if (bytes > length || pad != pad_to_eight(bytes))
		return -EPROTO;
	free(a->result); /* of a stream that broke before */
	a->result =
		aligned_alloc(RESULT_ALIGN, (bytes | (RESULT_ALIGN - 1)) + 1);
	if (!a->result)
		return -ENOMEM;
	a->result_bytes = bytes;
	err = from->move(from, a->result, bytes, 1);
	return err ? err : from->move(from, away, pad, 0);
}

struct skep_request *grid_bytes_start(struct grid_client *c,
				      const struct skep_handle *m, u32 f,
				      const struct grid_bytes *b, u64 most,
				      u64 tag)
{
	u64 bytes = count_bytes(b);
	struct grid_args *a;

	if (!function_fits(m, f)) {
		grid_error_set(OMRPC_E_BAD_MODULE,
			       "function %s of module %s does not take bytes",
			       m->module.function[f].name, m->name);
		return NULL;
	}
	a = calloc(1, sizeof(*a) + m->module.function[f].params *
					   sizeof(a->shape[0]));
	if (!a) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	grid_call_init(&a->call, &m->module, f);
	a->handle = m;
	a->bytes = b;
	a->in = sizeof(bytes) + bytes + pad_to_eight(bytes);
	a->out = m->module.function[f].params < 3 ? 0 : most;
	a->tag = tag;
	return grid_args_start(c, f, a);
}
