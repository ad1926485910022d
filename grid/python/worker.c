// SPDX-License-Identifier: MIT
/*
 * The session of a worker whose functions are Python's. What grid/worker does
 * for C functions is done here for bytes: an argument is read into memory of
 * its own, which Python may keep, and a result is sent from Python's memory.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grid/core/pages.h"
#include "grid/worker/order.h"
#include "grid/worker/stream.h"

#define DATA_ALIGN 64 /* what is computed on may want it */
#define FUNCTIONS 2

enum {
	STATUS_USAGE = 2,
	STATUS_SESSION = 3, /* the agent broke the protocol */
};

u32 skep_python_revision(void)
{
	return SKEP_PYTHON_REVISION;
}

void skep_python_drop(void *data)
{
	free(data);
}

static s32 session_status(int err)
{
	if (!err)
		return 0;
	if (err == STREAM_ENDED)
		return 1;
	fprintf(stderr, "worker: the session with the agent ended: %s\n",
		stream_why());
	return -STATUS_SESSION;
}

/* Opening ------------------------------------------------------------------ */

static const struct skep_proof no_proof; /* no Python runs under bee */

static int say_ready(void)
{
	return order_ready(FUNCTIONS, &no_proof);
}

s32 skep_python_serve(void)
{
	int fd = order_stream(), err;

	if (fd < 0)
		return STATUS_USAGE;
	err = order_open(fd);
	if (!err)
		err = say_ready();
	return session_status(err) ? STATUS_SESSION : 0;
}

s32 skep_python_ready(void)
{
	order_set_busy(0);
	return session_status(say_ready());
}

/* Refusals ----------------------------------------------------------------- */

s32 skep_python_refuse(u64 call, u32 code, const char *text)
{
	order_set_busy(0);
	return session_status(order_refuse(call, code, text));
}

/* Orders ------------------------------------------------------------------- */

/* A long, so many bytes, and zeros up to a multiple of 8. */
static int bytes_fit(u64 bytes, u64 length)
{
	return length >= 8 && bytes <= length - 8 &&
	       length - 8 - bytes == (-bytes & 7);
}

/* NULL: there is none. */
static u8 *new_data(u64 bytes)
{
	u8 *data = aligned_alloc(DATA_ALIGN, (bytes | (DATA_ALIGN - 1)) + 1);

	if (data)
		grid_pages_advise(data, bytes);
	return data;
}

static int take_call(struct skep_python_order *order, struct order_source *s)
{
	const char *why = NULL;
	u64 length = s->left;
	int err;

	if (length < 8)
		return -EPROTO;
	err = order_take(s, (u8 *)&order->bytes, 8);
	if (err)
		return err;
	if (!bytes_fit(order->bytes, length))
		return -EPROTO;
	order->data = new_data(order->bytes);
	if (!order->data)
		why = "the worker has no memory for the arguments";
	err = order_take(s, order->data, order->bytes);
	if (!err)
		err = order_drop_rest(s);
	if (!err && why)
		err = order_refuse(s->call, SKEP_E_WORKER, why);
	return err;
}

static int handle_call(struct skep_python_order *order,
		       const struct skep_frame *f)
{
	struct order_source s;
	struct skep_call call;
	int err = order_read_call(f, &call, &s);

	if (err)
		return err;
	order->call = f->call;
	order->most = call.result;
	return take_call(order, &s);
}

/* Initialize --------------------------------------------------------------- */

static int read_pickle(struct skep_python_order *order, int fd, u64 length)
{
	int err = length < 8 ? -EPROTO
			     : order_read_data(fd, (u8 *)&order->bytes, 8, 0);

	if (!err && !bytes_fit(order->bytes, length))
		err = -EPROTO;
	if (err)
		return err;
	order->data = new_data(order->bytes);
	return order->data ? order_read_data(fd, order->data, order->bytes, 8)
			   : -ENOMEM;
}

/* Sealed memory, which has no digest. A file that others could change has one,
 * and comes to workers under bee alone, where no Python runs. */
static int read_initial(struct skep_python_order *order,
			const struct skep_init *i, const char *path)
{
	static const u8 none[32];
	int fd, err;

	if (memcmp(i->digest, none, sizeof(none)))
		return -EOPNOTSUPP;
	fd = order_open_data(path);
	if (fd < 0)
		return fd;
	err = read_pickle(order, fd, i->length);
	close(fd);
	return err;
}

static int handle_init(struct skep_python_order *order,
		       const struct skep_frame *f)
{
	static char path[ORDER_PATH_MAX];
	struct skep_init i;
	char text[128];
	int err = order_read_init(f, &i, path);

	if (err)
		return err;
	err = read_initial(order, &i, path);
	if (!err)
		return 0;
	skep_python_drop(order->data);
	order->data = NULL;
	snprintf(text, sizeof(text),
		 "the data of Initialize cannot be read (errno %d)", -err);
	return order_refuse(0, SKEP_E_INTERNAL, text);
}

s32 skep_python_order(struct skep_python_order *order)
{
	struct skep_frame f;
	s32 status;
	int err;

	do {
		memset(order, 0, sizeof(*order));
		err = stream_next(&f);
		if (!err && f.type == SKEP_CALL)
			err = handle_call(order, &f);
		else if (!err && f.type == SKEP_INIT)
			err = handle_init(order, &f);
		else if (!err)
			err = -EPROTO;
	} while (!err && !order->data);
	status = session_status(err);
	order_set_busy(1);
	return status < 0 ? status : !status;
}

/* Answers ------------------------------------------------------------------ */

static int send_result(u64 call, const struct iovec *piece, u32 pieces,
		       u64 bytes, u64 exec_ns)
{
	u64 pad = -bytes & 7, none = 0;
	struct order_sink s;
	u32 i;
	int err =
		order_put_result(&s, call, 8 + bytes + pad, exec_ns, &no_proof);

	if (!err)
		err = order_put(&s, (const u8 *)&bytes, 8, 0);
	for (i = 0; i < pieces && !err; i++)
		err = order_put(&s, piece[i].iov_base, piece[i].iov_len, 1);
	if (!err)
		err = order_put(&s, (const u8 *)&none, pad, 0);
	return err ? err : stream_flush();
}

s32 skep_python_answer(u64 call, const struct iovec *piece, u32 pieces,
		       u64 exec_ns)
{
	u64 bytes = 0;
	u32 i;

	order_set_busy(0);
	for (i = 0; i < pieces; i++)
		bytes += piece[i].iov_len;
	return session_status(send_result(call, piece, pieces, bytes, exec_ns));
}
