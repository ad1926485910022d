// SPDX-License-Identifier: MIT
/*
 * Receives results: data goes from the socket directly into the memory that the
 * call was given. Runs in the reader's thread. The hub sends one result at a
 * time; other frames may arrive between its DATA frames.
 */
#include "back.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct taking {
	struct grid_mover mover;
	struct grid_client *client;
	u64 call;
	u32 frame; /* bytes missing in the current frame */
	int last;
	int code; /* an ERROR was received instead of more data */
	char text[512];
};

/* Reads up to the next DATA frame of this call. -ECANCELED: it ended with an
 * error. */
static int next_data(struct taking *t)
{
	struct skep_frame f;
	int err;

	for (;;) {
		if (t->last)
			return -EPROTO;
		err = grid_stream_head(&t->client->stream, &f);
		if (err)
			return err;
		if (f.type == SKEP_DATA && f.call == t->call) {
			t->frame = f.length;
			t->last = f.flags & SKEP_LAST;
			return 0;
		}
		if (f.type == SKEP_ERROR && f.call == t->call) {
			err = grid_client_error(t->client, f.length, t->text,
						sizeof(t->text), &t->code);
			return err ? err : -ECANCELED;
		}
		err = grid_client_frame(t->client, &f);
		if (err)
			return err;
	}
}

static int take_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct taking *t = (struct taking *)mover;
	u64 part;
	int err = 0;

	(void)own;
	while (len && !err) {
		if (!t->frame) {
			err = next_data(t);
			continue;
		}
		part = len < t->frame ? len : t->frame;
		err = grid_stream_read(&t->client->stream, bytes, part);
		bytes = (u8 *)bytes + part;
		len -= part;
		t->frame -= (u32)part;
	}
	return err;
}

/* Reads the rest of the data, of which there is none after a success. */
static int drain_data(struct taking *t, u64 *left)
{
	int err = 0;

	*left = 0;
	for (;;) {
		*left += t->frame;
		err = grid_stream_skip(&t->client->stream, t->frame);
		t->frame = 0;
		if (err || t->last)
			return err;
		err = next_data(t);
		if (err)
			return err;
	}
}

static void note_result(struct skep_request *r,
			const struct skep_result *result)
{
	struct skep_info *info = &r->info;

	memcpy(info->node, result->node, sizeof(info->node));
	info->node[sizeof(info->node) - 1] = 0;
	info->substrate = result->substrate;
	info->attempt = result->attempt;
	info->exec_ns = result->exec_ns;
	info->bytes_out = result->length;
	info->nonce = result->proof.nonce;
	info->calls = result->proof.calls;
	memcpy(info->program, result->program, sizeof(info->program));
}

static void explain_wrong(const struct skep_request *r, int wrong, char *text,
			  u64 size)
{
	const struct grid_call *c = &r->args->call;

	if (wrong == -EFAULT)
		snprintf(text, size,
			 "argument %s of %s cannot be written: its memory is "
			 "not this program's, or was given back",
			 c->module->param[c->function->first + c->wrong].name,
			 c->function->name);
	else
		snprintf(text, size, "the result of %s, from node %s, %s",
			 c->function->name, r->info.node,
			 wrong == -ENOMEM
				 ? "has no room in this program's memory"
				 : "does not fit its interface");
}

static void finish_result(struct taking *t, struct skep_request *r, int wrong)
{
	char text[256];
	const char *name = "";
	int err;

	if (t->code) {
		grid_request_end(t->client, r, t->code, t->text);
		return;
	}
	if (!wrong && r->args->bytes) {
		r->result = r->args->result;
		r->result_bytes = r->args->result_bytes;
		r->args->result = NULL;
		grid_request_end(t->client, r, OMRPC_OK, NULL);
		return;
	}
	if (!wrong) {
		err = grid_texts_deliver(r->args, &name);
		snprintf(text, sizeof(text),
			 "the file that came as %s cannot be written: %s", name,
			 strerror(-err));
		r->args->right = !err;
		grid_request_end(t->client, r,
				 err ? OMRPC_E_ARGUMENTS : OMRPC_OK,
				 err ? text : NULL);
		return;
	}
	explain_wrong(r, wrong, text, sizeof(text));
	grid_request_end(t->client, r,
			 wrong == -ENOMEM   ? OMRPC_E_NO_MEMORY
			 : wrong == -EFAULT ? OMRPC_E_ARGUMENTS
					    : OMRPC_E_PROTOCOL,
			 text);
}

/* Strings and files may be shorter than there is room for. */
static int length_fits(const struct grid_args *a, u64 length)
{
	const struct skep_function *f = a->call.function;
	const struct skep_param *p = &a->call.module->param[f->first];
	u32 i;

	if (a->bytes)
		return length <= a->out;
	for (i = 0; i < f->params; i++) {
		if (grid_param_texts(&p[i]) && p[i].mode & SKEP_OUT)
			return length <= a->out;
	}
	return length == a->out;
}

static int accept_result(struct grid_args *a, struct grid_mover *from,
			 u64 length)
{
	return a->bytes ? grid_bytes_accept(a, from, length)
			: grid_call_accept(&a->call, from, length);
}

/* Stored data, which the hub sends like a result. */
static int take_data(struct taking *t, struct skep_request *r, u64 length)
{
	u64 left = 0;
	int err = 0, code, unwritable;

	if (grid_request_busy(t->client, r))
		return -EPROTO;
	if (length == r->datum->length)
		err = take_bytes(&t->mover, r->memory, length, 1);
	if (err == -EPIPE)
		return err;
	unwritable = err == -EFAULT;
	if (!t->code) {
		err = drain_data(t, &left);
		if (err && err != -ECANCELED)
			return err;
	}
	code = t->code	    ? t->code
	       : unwritable ? OMRPC_E_ARGUMENTS
	       : left	    ? OMRPC_E_PROTOCOL
			    : OMRPC_OK;
	grid_request_end(t->client, r, code,
			 t->code      ? t->text
			 : unwritable ? "the memory that the stored data is "
					"read into is not this program's, or "
					"was given back"
				      : "the stored data has another length");
	return 0;
}

int grid_result_take(struct grid_client *c, const struct skep_frame *frame)
{
	struct taking t = {{take_bytes}, c, frame->call, 0, 0, 0, ""};
	struct skep_request *r = grid_client_find(c, frame->call);
	struct skep_result result;
	int err, wrong;
	u64 left = 0;

	if (!r || (r->kind != GRID_CALL && r->kind != GRID_READ) ||
	    frame->length != sizeof(result))
		return -EPROTO;
	err = grid_stream_read(&c->stream, &result, sizeof(result));
	if (err)
		return err;
	if (r->kind == GRID_READ)
		return take_data(&t, r, result.length);
	if (grid_request_busy(c, r) || grid_back_busy(c, r))
		return -EPROTO; /* not all arguments or answers were sent */
	note_result(r, &result);
	wrong = !length_fits(r->args, result.length);
	if (!wrong)
		wrong = accept_result(r->args, &t.mover, result.length);
	if (wrong == -EPIPE)
		return wrong;
	if (!t.code) {
		err = drain_data(&t, &left);
		if (err && err != -ECANCELED)
			return err;
	}
	if (result.length > SKEP_ACK_EVERY) /* the hub stores it until then */
		grid_stream_ack(&c->stream);
	finish_result(&t, r, wrong ? wrong : left ? -EPROTO : 0);
	return 0;
}
