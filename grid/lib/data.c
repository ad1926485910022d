// SPDX-License-Identifier: MIT
/*
 * Data that the hub stores for later calls, and calls whose arguments are such
 * data. Owns nothing: a datum is its caller's, and must live until all calls
 * with it have ended.
 */
#include "back.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX (2 * SKEP_PARAMS_MAX) /* the hub's limit, too */

int (*grid_data_resolve)(struct grid_client *c, const struct skep_param *p,
			 struct grid_value *v);

/* Requests ----------------------------------------------------------------- */

/* The hub was lost before all was sent, or the session is over; or the request
 * has ended, because the bytes cannot be read. */
static int drop_request(struct grid_client *c, struct skep_request *r, int err)
{
	int code;

	if (err != -EFAULT && !grid_client_keeps(c))
		return grid_request_abandon(c, r);
	grid_request_sent(c, r);
	grid_request_end(c, r, OMRPC_E_NO_HUB,
			 "the hub was lost while data was sent: send it again");
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

static int run_request(struct grid_client *c, enum grid_request_kind kind,
		       struct grid_datum *datum, void *memory,
		       int (*send)(struct grid_client *, struct skep_request *))
{
	struct skep_request *r = grid_request_new(c, kind, NULL);
	int code, err;

	if (!r)
		return grid_error_code();
	r->datum = datum;
	r->memory = memory;
	err = grid_request_send(c, r, NULL, send);
	if (err)
		return drop_request(c, r, err);
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

int grid_data_keep(struct grid_client *c, struct grid_datum *datum,
		   const void *bytes)
{
	int code =
		run_request(c, GRID_KEEP, datum, (void *)bytes, grid_data_send);

	if (!code)
		datum->kept = 1;
	return code;
}

static struct skep_datum datum_frame(const struct grid_datum *datum)
{
	struct skep_datum d = {.length = datum->length};

	memcpy(d.digest, datum->digest, sizeof(d.digest));
	return d;
}

static int send_read(struct grid_client *c, struct skep_request *r)
{
	struct skep_datum d = datum_frame(r->datum);
	u64 id = r->id;

	grid_request_sent(c, r); /* before it can be answered */
	return grid_stream_send(&c->stream, SKEP_READ, id, &d, sizeof(d))
		       ? -EPIPE
		       : 0;
}

int grid_data_read(struct grid_client *c, struct grid_datum *datum, void *to)
{
	return run_request(c, GRID_READ, datum, to, send_read);
}

int grid_data_drop(struct grid_client *c, struct grid_datum *datum)
{
	struct skep_datum d = datum_frame(datum);

	if (!datum->kept)
		return OMRPC_OK;
	datum->kept = 0;
	if (!grid_stream_send(&c->stream, SKEP_DROP, 0, &d, sizeof(d)) ||
	    grid_client_keeps(c))
		return OMRPC_OK; /* a lost hub has dropped it */
	return grid_client_over(c);
}

int grid_data_handle_kept(struct grid_client *c, const struct skep_frame *frame)
{
	struct skep_request *r = grid_client_find(c, frame->call);
	struct skep_datum d;
	int err;

	if (!r || r->kind != GRID_KEEP || frame->length != sizeof(d) ||
	    grid_request_busy(c, r))
		return -EPROTO;
	err = grid_stream_read(&c->stream, &d, sizeof(d));
	if (err)
		return err;
	memcpy(r->datum->digest, d.digest, sizeof(d.digest));
	grid_request_end(c, r, OMRPC_OK, NULL);
	return 0;
}

/* Calls -------------------------------------------------------------------- */

static const struct skep_param *param_of(const struct grid_args *a, u32 i)
{
	return &a->call.module->param[a->call.function->first + i];
}

/* The data that an argument is, by its index; NULL: there is no more. */
static struct grid_datum *datum_at(const struct grid_value *v, u32 k)
{
	if (v->data)
		return k ? NULL : v->data;
	return k < v->parts ? v->part[k] : NULL;
}

/* Returns how many places the argument takes in the call. */
static u32 begin_writes(const struct grid_args *a, u8 mode,
			const struct grid_value *v)
{
	struct grid_datum *d;
	u32 k;

	for (k = 0; (d = datum_at(v, k)); k++) {
		if (!(mode & SKEP_OUT))
			continue;
		d->outer = a->outer;
		__atomic_add_fetch(&d->writers, 1, __ATOMIC_ACQ_REL);
	}
	return mode == SKEP_INOUT ? 2 * k : k;
}

int grid_data_prepare(struct grid_client *c, struct grid_args *a)
{
	const struct skep_param *p;
	struct grid_value *v;
	u32 i, places = 0;
	int code;

	for (i = 0; grid_data_resolve && i < a->call.function->params; i++) {
		p = param_of(a, i);
		v = &a->call.value[i];
		if (!v->at || !p->dims || grid_type_text(p->type) ||
		    p->mode == SKEP_WORK)
			continue;
		code = grid_data_resolve(c, p, v);
		if (code)
			return code;
		if (v->data || v->part)
			v->at = NULL;
		places += begin_writes(a, p->mode, v);
		if (places > PLACES_MAX)
			return grid_error_set(
				OMRPC_E_ARGUMENTS,
				"argument %s: a call has at most %d pieces of "
				"data, and the parts of containers count",
				p->name, PLACES_MAX);
	}
	return OMRPC_OK;
}

int grid_data_announce(struct grid_args *a)
{
	const struct skep_handle *m = a->handle;
	struct skep_datum list[PLACES_MAX];
	struct skep_call call = {(u32)(a->call.function - m->module.function),
				 m->number, a->in, a->out};
	u32 in, out, i, n;
	u64 tail[2];

	if (!grid_data_resolve)
		return OMRPC_OK;
	in = grid_call_data(&a->call, SKEP_IN, list);
	out = grid_call_data(&a->call, SKEP_OUT, list + in);
	if (!(in + out))
		return OMRPC_OK;
	for (i = in; i < in + out; i++)
		call.result += list[i].length - sizeof(list[i].digest);
	a->head_len = (u32)(sizeof(call) + (in + out) * sizeof(list[0]));
	n = (u32)(grid_call_tail(a, tail) * sizeof(tail[0]));
	a->head = malloc(a->head_len + n);
	if (!a->head)
		return grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
	memcpy(a->head, &call, sizeof(call));
	memcpy((u8 *)a->head + sizeof(call), list,
	       (in + out) * sizeof(list[0]));
	memcpy((u8 *)a->head + a->head_len, tail, n);
	a->head_len += n;
	return OMRPC_OK;
}

int grid_data_busy(const struct grid_datum *datum)
{
	return __atomic_load_n(&datum->writers, __ATOMIC_ACQUIRE) != 0;
}

int grid_data_refuse_wait(const struct grid_datum *datum)
{
	return grid_data_busy(datum) ? grid_back_refuse_other(datum->outer)
				     : OMRPC_OK;
}

u32 grid_data_wait_any(struct grid_client *c, struct grid_datum *const *datum,
		       u32 count)
{
	u32 i;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		for (i = 0; i < count && grid_data_busy(datum[i]);)
			i++;
		if (i < count || !count)
			break;
		pthread_cond_wait(&c->ended, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return i;
}

static void settle_one(struct grid_datum *d, int right, u64 bytes)
{
	if (right) {
		memcpy(d->digest, d->fresh, sizeof(d->digest));
		d->length = bytes;
		d->kept = 1;
		d->version++;
	}
	__atomic_sub_fetch(&d->writers, 1, __ATOMIC_ACQ_REL);
}

void grid_data_settle(struct grid_args *a)
{
	struct grid_value *v;
	struct grid_datum *d;
	u32 i, k;

	if (!grid_data_resolve || a->bytes)
		return;
	for (i = 0; i < a->call.function->params; i++) {
		v = &a->call.value[i];
		if (!(param_of(a, i)->mode & SKEP_OUT))
			continue;
		for (k = 0; (d = datum_at(v, k)); k++)
			settle_one(d, a->right,
				   v->part ? d->size
					   : a->shape[i].moved *
						     grid_type_size(
							     param_of(a, i)
								     ->type));
	}
}
