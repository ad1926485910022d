// SPDX-License-Identifier: MIT
/*
 * Owns one socket. Only its thread uses what is in struct hub, until hub_stop.
 */
#include "hub.h"

#include <errno.h>
#include <grid/core/marshal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "manifest.h"

#define LIVE_MAX 256
#define CHUNK 5000 /* odd, so that arrays are cut anywhere */
#define WIDE_CHUNK 0x80000

enum { INITIALIZE, SUM, SCALE, FAIL, HANG, TYPES, NOTHING };

struct live {
	u64 id, length, have;
	u32 function;
	u8 *bytes;
};

static struct manifest manifest;
static struct grid_module module;
static u64 manifest_len;
static struct live live[LIVE_MAX];

static struct skep_param *add_array(const char *name, u8 type, u8 mode,
				    u32 size)
{
	struct skep_param *p = manifest_param(&manifest, name, type, mode);

	p->dims = 1;
	p->dim[0].size = size;
	return p;
}

static void make_manifest(void)
{
	struct manifest *m = &manifest;
	const char *why;
	u32 first;

	manifest_init(m, "demo");
	manifest_function(m, "Initialize", SKEP_FUNCTION_INIT);
	manifest_param(m, "n", SKEP_INT, SKEP_IN);
	first = manifest_scalar(m, 0);
	add_array("x", SKEP_DOUBLE, SKEP_IN, first);
	manifest_function(m, "sum", 0);
	manifest_param(m, "n", SKEP_LONG, SKEP_IN);
	add_array("x", SKEP_DOUBLE, SKEP_IN, first);
	manifest_param(m, "total", SKEP_DOUBLE, SKEP_OUT);
	manifest_function(m, "scale", 0);
	manifest_param(m, "n", SKEP_INT, SKEP_IN);
	manifest_param(m, "by", SKEP_FLOAT, SKEP_IN);
	add_array("x", SKEP_DOUBLE, SKEP_INOUT, first);
	manifest_function(m, "fail", 0);
	manifest_function(m, "hang", 0);
	manifest_function(m, "types", 0);
	manifest_param(m, "c", SKEP_CHAR, SKEP_IN);
	manifest_param(m, "s", SKEP_SHORT | SKEP_TYPE_UNSIGNED, SKEP_IN);
	manifest_param(m, "l", SKEP_LONG, SKEP_IN);
	manifest_param(m, "f", SKEP_FLOAT, SKEP_IN);
	manifest_param(m, "d", SKEP_DOUBLE, SKEP_IN);
	manifest_param(m, "t", SKEP_STRING, SKEP_IN);
	manifest_param(m, "w", SKEP_INT, SKEP_WORK)->dims = 1;
	m->param[m->head.params - 1].dim[0].size = manifest_const(m, 7);
	add_array("r", SKEP_LONG, SKEP_OUT, manifest_const(m, 6));
	manifest_param(m, "io", SKEP_SHORT, SKEP_INOUT);
	manifest_function(m, "nothing", 0);
	manifest_len = manifest_done(m);
	if (grid_module_open(&module, m->bytes, manifest_len, &why))
		abort();
}

/* The stream -------------------------------------------------------------- */

static int read_bytes(struct hub *h, void *to, u64 len)
{
	ssize_t n;

	for (; len; len -= (u64)n, to = (u8 *)to + n) {
		n = recv(h->fd, to, len, 0);
		if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int write_frame(struct hub *h, const void *bytes, u64 len)
{
	ssize_t n;

	for (; len; len -= (u64)n, bytes = (const u8 *)bytes + n) {
		n = send(h->fd, bytes, len, MSG_NOSIGNAL);
		if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int send_frame(struct hub *h, u16 type, u16 flags, u64 call,
		      const void *payload, u32 len)
{
	struct skep_frame f = {len, type, flags, call};

	if (type != SKEP_ACK)
		h->sent += sizeof(f) + len;
	return write_frame(h, &f, sizeof(f)) || write_frame(h, payload, len)
		       ? -EPIPE
		       : 0;
}

static int send_error(struct hub *h, u64 call, u32 code, const char *text)
{
	struct {
		struct skep_error e;
		char text[100];
	} out = {{code, (u32)strlen(text)}, ""};

	memcpy(out.text, text, out.e.text);
	return send_frame(h, SKEP_ERROR, 0, call, &out,
			  (u32)sizeof(out.e) + out.e.text);
}

static int exchange_hello(struct hub *h)
{
	struct {
		struct skep_frame f;
		struct skep_hello h;
	} io;

	if (read_bytes(h, &io, sizeof(io)) || io.f.type != SKEP_HELLO ||
	    io.h.magic != SKEP_SESSION_MAGIC ||
	    io.h.revision != SKEP_SESSION_REVISION)
		return -EPROTO;
	if (!!h->life != !!(io.f.flags & SKEP_AGAIN) ||
	    (h->life && memcmp(h->session, io.h.session, 16)) || io.h.received)
		return -EPROTO;
	memcpy(h->session, io.h.session, 16);
	io.f.flags = h->manner == HUB_KILLED || h->manner == HUB_KEEPS ||
				     h->manner == HUB_WIDE
			     ? SKEP_AGAIN
			     : 0;
	if (h->manner == HUB_OLD)
		io.h.revision = 77;
	if (h->manner == HUB_NONSENSE)
		io.h.magic = 0;
	if (h->manner == HUB_SILENT)
		return write_frame(h, &io, sizeof(io.f) + 8);
	return write_frame(h, &io, sizeof(io));
}

/* Functions --------------------------------------------------------------- */

struct buffer {
	struct grid_mover mover;
	u8 *bytes;
	u64 at, len;
};

static int from_buffer(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct buffer *b = (struct buffer *)mover;

	(void)own;
	if (len > b->len - b->at)
		return -EPIPE;
	memcpy(bytes, b->bytes + b->at, len);
	b->at += len;
	return 0;
}

static int to_buffer(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct buffer *b = (struct buffer *)mover;

	(void)own;
	memcpy(b->bytes + b->at, bytes, len);
	b->at += len;
	return 0;
}

static double bits_to_number(u64 bits, u64 size)
{
	double wide;
	float narrow;

	memcpy(&wide, &bits, 8);
	memcpy(&narrow, &bits, 4);
	return size == 4 ? narrow : wide;
}

static void run_call(struct grid_call *c, u32 function)
{
	struct grid_value *v = c->value;
	s64 *r = v[7].at;
	double *x;
	u64 i;

	if (function == SUM) {
		for (x = v[1].at, i = 0; i < v[1].count; i++)
			*(double *)v[2].at += x[i];
	} else if (function == SCALE) {
		for (x = v[2].at, i = 0; i < v[2].count; i++)
			x[i] *= bits_to_number(v[1].bits, 4);
	} else if (function == TYPES) {
		for (i = 0; i < 3; i++)
			r[i] = (s64)v[i].bits;
		r[3] = (s64)(bits_to_number(v[3].bits, 4) * 1000);
		r[4] = (s64)(bits_to_number(v[4].bits, 8) * 1000);
		r[5] = (s64)strlen(v[5].at);
		*(s16 *)v[8].at = (s16)(*(s16 *)v[8].at * 2);
	}
}

/* Answers the bytes of the result. */
static u8 *compute_result(struct hub *h, struct live *l, u64 *length)
{
	struct buffer in = {{from_buffer}, l->bytes, 0, l->length};
	struct buffer out = {{to_buffer}, NULL, 0, 0};
	struct grid_call c;

	grid_call_init(&c, &module, l->function);
	if (grid_call_take(&c, &in.mover, &grid_memory_heap, l->length)) {
		h->broken = 1;
		*length = 0;
		grid_call_drop(&c, &grid_memory_heap);
		return calloc(1, 1);
	}
	run_call(&c, l->function);
	grid_call_measure(&c, SKEP_OUT, length);
	out.bytes = calloc(1, *length + 16);
	grid_call_send(&c, SKEP_OUT, &out.mover);
	grid_call_drop(&c, &grid_memory_heap);
	return out.bytes;
}

static int send_data(struct hub *h, u64 id, const u8 *bytes, u64 length)
{
	u64 at = 0, part, chunk = h->manner == HUB_WIDE ? WIDE_CHUNK : CHUNK;
	int err = 0, n = 0;

	do {
		part = length - at < chunk ? length - at : chunk;
		err = send_frame(h, SKEP_DATA,
				 at + part == length ? SKEP_LAST : 0, id,
				 bytes + at, (u32)part);
		at += part;
		if (!err)
			err = send_frame(h, SKEP_PING, 0, 0, "", 0);
		if (!err && (h->manner == HUB_BREAKS ||
			     (h->manner == HUB_KILLED && h->life == 2)))
			err = -EPIPE;
		if (!err && h->manner == HUB_TORN && ++n == 2)
			return send_error(h, id, SKEP_E_INTERNAL,
					  "it cannot be read back");
	} while (!err && at < length);
	return err;
}

static int send_result(struct hub *h, struct live *l)
{
	struct skep_result r = {.exec_ns = 1234,
				.proof = {11, 22},
				.attempt = 2,
				.substrate = SKEP_SUBSTRATE_BEE_LINUX,
				.program = {1, 2, 3},
				.node = "a-node"};
	u8 *bytes;
	int err;

	if (h->manner == HUB_ENDS)
		return send_error(h, 0, SKEP_E_REFUSED, "no more of this");
	bytes = compute_result(h, l, &r.length);
	r.length += h->manner == HUB_LONG ? 16 : 0;
	err = send_frame(h, SKEP_RESULT, 0, h->manner == HUB_WRONG ? 5 : l->id,
			 &r, sizeof(r));
	if (!err)
		err = send_data(h, l->id, bytes, r.length);
	free(bytes);
	return err;
}

/* Frames ------------------------------------------------------------------ */

static struct live *find_call(u64 id)
{
	u32 i;

	for (i = 0; i < LIVE_MAX && live[i].id != id; i++)
		;
	return i < LIVE_MAX ? &live[i] : NULL;
}

static void forget_call(struct live *l)
{
	free(l->bytes);
	memset(l, 0, sizeof(*l));
}

static int announce_call(struct hub *h, const struct skep_frame *f,
			 const u8 *bytes)
{
	struct live *l = find_call(0);
	struct skep_call call = {0};
	u64 len = f->type == SKEP_MODULE_INIT ? sizeof(struct skep_module_init)
					      : sizeof(call);

	if (f->length != len || !f->call || find_call(f->call) || !l)
		return -EPROTO;
	memcpy(&call, bytes, len);
	if (f->type == SKEP_MODULE_INIT) {
		struct skep_module_init init;

		memcpy(&init, bytes, sizeof(init));
		call.module = init.module;
		call.function = init.function;
		call.length = init.length;
	}
	if (call.module != 9 || call.function > NOTHING)
		return -EPROTO;
	*l = (struct live){f->call, call.length, 0, call.function,
			   malloc(call.length + 1)};
	h->calls++;
	h->again += !!(f->flags & SKEP_AGAIN);
	if (h->manner != HUB_KILLED)
		return 0;
	if (h->life == 4 && call.function == NOTHING &&
	    !(f->flags & SKEP_AGAIN))
		return send_error(h, 0, SKEP_E_INTERNAL, "the session is over");
	return h->life == 1 || (h->life == 3 && call.function == NOTHING)
		       ? -EPIPE
		       : 0;
}

static int end_call(struct hub *h, struct live *l)
{
	int err = 0;

	if (l->function == HANG ||
	    (h->manner == HUB_KILLED && l->function == SUM))
		return 0;
	/* Initialize without elements is refused. */
	if (l->function == FAIL ||
	    (l->function == INITIALIZE && l->length < 2 * sizeof(double)))
		err = send_error(h, l->id, SKEP_E_WORKER, "it fell over");
	else if (l->function == INITIALIZE)
		err = send_frame(h, SKEP_DONE, 0, l->id, "", 0);
	else
		err = send_result(h, l);
	h->inits += l->function == INITIALIZE;
	forget_call(l);
	return err;
}

static int receive_data(struct hub *h, const struct skep_frame *f,
			const u8 *bytes)
{
	struct live *l = find_call(f->call);

	if (!l || f->length > l->length - l->have)
		return -EPROTO;
	memcpy(l->bytes + l->have, bytes, f->length);
	l->have += f->length;
	if (!(f->flags & SKEP_LAST))
		return 0;
	return l->have == l->length ? end_call(h, l) : -EPROTO;
}

static int handle_bind(struct hub *h, const struct skep_frame *f,
		       const u8 *bytes)
{
	struct skep_bound bound = {9, (u32)manifest_len};
	u8 out[0x8000];

	if (f->length != 4 || memcmp(bytes, "demo", 4))
		return send_error(h, f->call, SKEP_E_NO_MODULE,
				  "no worker program of that name");
	memcpy(out, &bound, sizeof(bound));
	memcpy(out + sizeof(bound), manifest.bytes, manifest_len);
	return send_frame(h, SKEP_BOUND, 0, f->call, out,
			  (u32)(sizeof(bound) + manifest_len));
}

static int cancel_call(struct hub *h, u64 call)
{
	struct live *l = find_call(call);

	if (!l)
		return 0;
	h->taken++;
	forget_call(l);
	return send_error(h, call, SKEP_E_CANCELLED, "it was cancelled");
}

static int receive_frame(struct hub *h, const struct skep_frame *f,
			 const u8 *bytes)
{
	switch (f->type) {
	case SKEP_BIND:
		return h->manner == HUB_KILLED && !h->life
			       ? -EPIPE
			       : handle_bind(h, f, bytes);
	case SKEP_CALL:
	case SKEP_MODULE_INIT:
		return announce_call(h, f, bytes);
	case SKEP_DATA:
		return receive_data(h, f, bytes);
	case SKEP_CANCEL:
		return cancel_call(h, f->call);
	case SKEP_BYE:
		return -EPIPE;
	}
	return -EPROTO;
}

static int handle_ack(struct hub *h, const u8 *bytes)
{
	u64 received;

	memcpy(&received, bytes, 8);
	if (received > h->sent || received < h->sent_acked)
		return -EPROTO;
	h->sent_acked = received;
	return 0;
}

static int serve_master(struct hub *h)
{
	static u8 bytes[SKEP_FRAME_MAX];
	struct skep_frame f;
	int err;

	err = exchange_hello(h);
	while (!err) {
		err = read_bytes(h, &f, sizeof(f));
		if (!err && f.length > sizeof(bytes))
			err = -EPROTO;
		if (!err)
			err = read_bytes(h, bytes, f.length);
		if (!err && f.type == SKEP_ACK) {
			err = handle_ack(h, bytes);
			continue;
		}
		h->received += sizeof(f) + f.length;
		if (h->received - h->acked > h->unacked_max)
			h->unacked_max = h->received - h->acked;
		if (!err)
			err = receive_frame(h, &f, bytes);
		/* As late as the rules allow, and a little later. */
		if (!err && h->received - h->acked >= 3 << 20) {
			h->acked = h->received;
			err = send_frame(h, SKEP_ACK, 0, 0, &h->acked, 8);
		}
	}
	return err;
}

static void *serve_one(void *arg)
{
	struct hub *h = arg;
	int err;
	u32 i;

	do {
		h->fd = accept(h->listener, NULL, NULL);
		h->sent = h->sent_acked = h->received = h->acked = 0;
		err = serve_master(h);
		if (err == -EPROTO)
			h->broken = 1;
		close(h->fd);
		for (i = 0; i < LIVE_MAX; i++)
			forget_call(&live[i]);
	} while (h->manner == HUB_KILLED && !h->broken && h->life++ < 4);
	return NULL;
}

int hub_start(struct hub *h, enum hub_manner manner)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	memset(h, 0, sizeof(*h));
	make_manifest();
	h->manner = manner;
	snprintf(h->path, sizeof(h->path), "/tmp/skep-hub-test-%d", getpid());
	strcpy(at.sun_path, h->path);
	unlink(h->path);
	h->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(h->listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(h->listener, 1))
		return -errno;
	setenv("SKEP_SOCKET", h->path, 1);
	return -pthread_create(&h->thread, NULL, serve_one, h);
}

void hub_stop(struct hub *h)
{
	pthread_join(h->thread, NULL);
	close(h->listener);
	unlink(h->path);
}
