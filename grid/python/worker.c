// SPDX-License-Identifier: MIT
/*
 * The session of a worker whose functions are Python's. What grid/worker does
 * for C functions is done here for bytes: an argument is read into memory of
 * its own, which Python may keep, and a result is sent from Python's memory.
 * Owns the thread that says PING; `busy` is read by it.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <skep/module.h>

#include "grid/worker/stream.h"

#define DATA_MAX 0x40000
#define DATA_ALIGN 64 /* what is computed on may want it */
#define FUNCTIONS 2

enum {
	STATUS_USAGE = 2,
	STATUS_SESSION = 3, /* the agent broke the protocol */
};

static int busy;

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

static void *ping_thread(void *none)
{
	const struct timespec pause = {SKEP_PING_SECONDS, 0};

	for (;;) {
		nanosleep(&pause, NULL);
		if (__atomic_load_n(&busy, __ATOMIC_RELAXED))
			stream_ping();
	}
	return none;
}

static int start_pinging(void)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, ping_thread, NULL);

	return err ? -EAGAIN : pthread_detach(t);
}

static int say_ready(void)
{
	struct skep_ready r = {SKEP_MODULE_REVISION, FUNCTIONS, {0, 0}};
	int err;

	err = stream_frame(SKEP_READY, 0, 0, sizeof(r));
	if (!err)
		err = stream_put(&r, sizeof(r), 0);
	return err ? err : stream_flush();
}

s32 skep_python_serve(void)
{
	const char *text = getenv("SKEP_STREAM");
	int fd = text ? atoi(text) : 0, err;

	if (fd < 3)
		return STATUS_USAGE;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	err = stream_open(fd);
	if (!err)
		err = start_pinging();
	if (!err)
		err = say_ready();
	return session_status(err) ? STATUS_SESSION : 0;
}

s32 skep_python_ready(void)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
	return session_status(say_ready());
}

/* Refusals ----------------------------------------------------------------- */

static int send_error(u64 call, u32 code, const char *text)
{
	struct skep_error e = {code, (u32)strlen(text)};
	int err;

	err = stream_frame(SKEP_ERROR, 0, call, (u32)sizeof(e) + e.text);
	if (!err)
		err = stream_put(&e, sizeof(e), 0);
	if (!err)
		err = stream_put(text, e.text, 0);
	return err ? err : stream_flush();
}

s32 skep_python_refuse(u64 call, u32 code, const char *text)
{
	__atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
	return session_status(send_error(call, code, text));
}

/* Orders ------------------------------------------------------------------- */

/* The DATA of one call. */
struct source {
	u64 call, left;
	int last;
};

static int next_data(struct source *s)
{
	struct skep_frame f;
	int err = stream_next(&f);

	if (!err && (f.type != SKEP_DATA || f.call != s->call || s->last ||
		     f.length > s->left || (!f.length && !f.flags)))
		err = -EPROTO;
	if (err)
		return err;
	s->last = f.flags & SKEP_LAST;
	return s->last && f.length != s->left ? -EPROTO : 0;
}

/* `to` may be NULL: the bytes are dropped. */
static int take_bytes(struct source *s, u8 *to, u64 len)
{
	u8 away[0x1000];
	u64 n;
	int err = 0;

	while (len && !err) {
		if (!stream_left()) {
			err = next_data(s);
			continue;
		}
		n = stream_left() < len ? stream_left() : len;
		if (!to && n > sizeof(away))
			n = sizeof(away);
		err = stream_read(to ? to : away, n);
		s->left -= n;
		to += to ? n : 0;
		len -= n;
	}
	return err;
}

static int finish_data(struct source *s)
{
	int err = take_bytes(s, NULL, s->left);

	return err || s->last ? err : next_data(s);
}

/* A long, so many bytes, and zeros up to a multiple of 8. */
static int bytes_fit(u64 bytes, u64 length)
{
	return length >= 8 && bytes <= length - 8 &&
	       length - 8 - bytes == (-bytes & 7);
}

static int take_call(struct skep_python_order *order, struct source *s)
{
	const char *why = NULL;
	u64 length = s->left;
	int err;

	if (length < 8)
		return -EPROTO;
	err = take_bytes(s, (u8 *)&order->bytes, 8);
	if (err)
		return err;
	if (!bytes_fit(order->bytes, length))
		return -EPROTO;
	order->data = aligned_alloc(DATA_ALIGN,
				    (order->bytes | (DATA_ALIGN - 1)) + 1);
	if (!order->data)
		why = "the worker has no memory for the arguments";
	err = take_bytes(s, order->data, order->bytes);
	if (!err)
		err = finish_data(s);
	if (!err && why)
		err = send_error(s->call, SKEP_E_WORKER, why);
	return err;
}

static int handle_call(struct skep_python_order *order,
		       const struct skep_frame *f)
{
	struct source s = {f->call, 0, 0};
	struct skep_call call;
	int err;

	if (f->length != sizeof(call))
		return -EPROTO;
	err = stream_read(&call, sizeof(call));
	if (err)
		return err;
	s.left = call.length;
	order->call = f->call;
	order->most = call.result;
	return take_call(order, &s);
}

/* Initialize --------------------------------------------------------------- */

static int read_all(int fd, u8 *to, u64 len, u64 at)
{
	ssize_t n;

	for (; len; to += n, at += (u64)n, len -= (u64)n) {
		n = pread(fd, to, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}

/* An inherited descriptor of memory that nobody can change. */
static int read_initial(struct skep_python_order *order,
			const struct skep_init *i, const char *path)
{
	static const char inherited[] = "/proc/self/fd/";
	int fd, err;

	if (strncmp(path, inherited, sizeof(inherited) - 1))
		return -EPROTO;
	fd = atoi(path + sizeof(inherited) - 1);
	err = i->length < 8 ? -EPROTO : read_all(fd, (u8 *)&order->bytes, 8, 0);
	if (!err && !bytes_fit(order->bytes, i->length))
		err = -EPROTO;
	if (err)
		return err;
	order->data = aligned_alloc(DATA_ALIGN,
				    (order->bytes | (DATA_ALIGN - 1)) + 1);
	err = order->data ? read_all(fd, order->data, order->bytes, 8)
			  : -ENOMEM;
	close(fd);
	return err;
}

static int handle_init(struct skep_python_order *order,
		       const struct skep_frame *f)
{
	static char path[0x1000];
	struct skep_init i;
	char text[128];
	int err;

	if (f->length < sizeof(i) || f->call)
		return -EPROTO;
	err = stream_read(&i, sizeof(i));
	if (err)
		return err;
	if (i.path != f->length - sizeof(i) || i.path >= sizeof(path))
		return -EPROTO;
	err = stream_read(path, i.path);
	if (err)
		return err;
	path[i.path] = 0;
	err = read_initial(order, &i, path);
	if (!err)
		return 0;
	skep_python_drop(order->data);
	order->data = NULL;
	snprintf(text, sizeof(text),
		 "the data of Initialize cannot be read (errno %d)", -err);
	return send_error(0, SKEP_E_INTERNAL, text);
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
	__atomic_store_n(&busy, 1, __ATOMIC_RELAXED);
	return status < 0 ? status : !status;
}

/* Answers ------------------------------------------------------------------ */

struct sink {
	u64 call, left;
	u32 inside; /* of the current frame, not yet put */
};

static int put_bytes(struct sink *s, const u8 *bytes, u64 len, int own)
{
	u64 n;
	int err;

	for (; len; bytes += n, len -= n) {
		if (!s->inside) {
			s->inside =
				s->left < DATA_MAX ? (u32)s->left : DATA_MAX;
			err = stream_frame(SKEP_DATA,
					   s->inside == s->left ? SKEP_LAST : 0,
					   s->call, s->inside);
			if (err)
				return err;
		}
		n = len < s->inside ? len : s->inside;
		s->inside -= (u32)n;
		s->left -= n;
		err = stream_put(bytes, n, own);
		if (err)
			return err;
	}
	return 0;
}

static int send_result(u64 call, const struct iovec *piece, u32 pieces,
		       u64 bytes, u64 exec_ns)
{
	u64 pad = -bytes & 7, none = 0;
	struct sink s = {call, 8 + bytes + pad, 0};
	struct skep_result r;
	u32 i;
	int err;

	memset(&r, 0, sizeof(r));
	r.length = s.left;
	r.exec_ns = exec_ns;
	err = stream_frame(SKEP_RESULT, 0, call, sizeof(r));
	if (!err)
		err = stream_put(&r, sizeof(r), 0);
	if (!err)
		err = put_bytes(&s, (const u8 *)&bytes, 8, 0);
	for (i = 0; i < pieces && !err; i++)
		err = put_bytes(&s, piece[i].iov_base, piece[i].iov_len, 1);
	if (!err)
		err = put_bytes(&s, (const u8 *)&none, pad, 0);
	return err ? err : stream_flush();
}

s32 skep_python_answer(u64 call, const struct iovec *piece, u32 pieces,
		       u64 exec_ns)
{
	u64 bytes = 0;
	u32 i;

	__atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
	for (i = 0; i < pieces; i++)
		bytes += piece[i].iov_len;
	return session_status(send_result(call, piece, pieces, bytes, exec_ns));
}
