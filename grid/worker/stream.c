// SPDX-License-Identifier: MIT
/*
 * Owns the session and the buffer of what was read ahead. `lock` guards the
 * session's sending side and the writing of the stream; the session's reading
 * side and the buffer belong to the thread that reads. An ACK that comes
 * touches both sides, so it is taken under the lock.
 *
 * A frame is queued and flushed under one hold of the lock, which begins in
 * stream_frame and ends in stream_flush.
 */
#include <skep/assert.h>

#include "stream.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "grid/core/session.h"

#define AHEAD 0x2000
#define PIECES 16

static struct grid_session session;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int held; /* by the thread that reads */
static int stream = -1;
static u8 ahead[AHEAD];
static u32 ahead_at, ahead_end;

const char *stream_why(void)
{
	return session.why ? session.why : "received an unexpected frame";
}

static int fail_session(int err, const char *why)
{
	session.why = why;
	return err;
}

/* Writing ------------------------------------------------------------------ */

static int write_some(const struct grid_piece *piece, u32 n)
{
	struct iovec v[PIECES];
	ssize_t done;
	u32 i;

	for (i = 0; i < n; i++) {
		v[i].iov_base = (void *)piece[i].bytes;
		v[i].iov_len = piece[i].len;
	}
	do
		done = n == 1 ? write(stream, v[0].iov_base, v[0].iov_len)
			      : writev(stream, v, (int)n);
	while (done < 0 && errno == EINTR);
	if (done <= 0)
		return fail_session(STREAM_ENDED,
				    "the agent closed the stream");
	grid_session_wrote(&session, (u64)done);
	return 0;
}

/* The lock is held. */
static int drain_session(void)
{
	struct grid_piece piece[PIECES];
	u32 n;
	int err;

	skep_assert(pthread_mutex_trylock(&lock));
	while ((n = grid_session_out(&session, piece, PIECES))) {
		err = write_some(piece, n);
		if (err)
			return err;
	}
	return 0;
}

static void hold_lock(void)
{
	if (!held)
		pthread_mutex_lock(&lock);
	held = 1;
}

static void let_go(void)
{
	held = 0;
	pthread_mutex_unlock(&lock);
}

int stream_flush(void)
{
	int err;

	hold_lock();
	err = drain_session();
	let_go();
	return err;
}

static int await_ack(void);

int stream_frame(u16 type, u16 flags, u64 call, u32 len)
{
	int err;

	hold_lock();
	while ((err = grid_session_frame(&session, type, flags, call, len)) ==
	       -EAGAIN) {
		err = stream_flush();
		if (!err)
			err = await_ack();
		if (err)
			return err;
		hold_lock();
	}
	return err;
}

/* What is written need not be kept, so writing makes room in the tables. */
int stream_put(const void *bytes, u64 len, int own)
{
	int err = grid_session_put(&session, bytes, len, own);

	if (err != -EAGAIN)
		return err;
	err = drain_session();
	return err ? err : grid_session_put(&session, bytes, len, own);
}

void stream_ping(void)
{
	if (pthread_mutex_trylock(&lock))
		return; /* the other thread is sending */
	if (!grid_session_frame(&session, SKEP_PING, 0, 0, 0))
		drain_session();
	pthread_mutex_unlock(&lock);
}

/* Reading ------------------------------------------------------------------ */

static int read_some(void *to, u64 n, u64 *done)
{
	ssize_t got;

	do
		got = read(stream, to, n);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return fail_session(STREAM_ENDED,
				    "the agent closed the stream");
	*done = (u64)got;
	return 0;
}

/* Small reads go through the buffer, large ones straight to their place. */
static int read_all(u8 *to, u64 n)
{
	u64 part;
	int err;

	while (n) {
		if (ahead_at < ahead_end) {
			part = ahead_end - ahead_at;
			part = part < n ? part : n;
			memcpy(to, ahead + ahead_at, part);
			ahead_at += (u32)part;
		} else if (n >= AHEAD) {
			err = read_some(to, n, &part);
			if (err)
				return err;
		} else {
			err = read_some(ahead, AHEAD, &part);
			if (err)
				return err;
			ahead_at = 0;
			ahead_end = (u32)part;
			continue;
		}
		to += part;
		n -= part;
	}
	return 0;
}

u32 stream_left(void)
{
	return session.left;
}

/* Received data are acknowledged in time, or the agent would wait for ever. */
static int tell_taken(void)
{
	if (session.received - session.ack_sent < SKEP_ACK_EVERY)
		return 0;
	return stream_flush();
}

int stream_read(void *to, u64 n)
{
	int err;

	if (n > session.left)
		return fail_session(-EPROTO,
				    "a frame is shorter than its content");
	err = read_all(to, n);
	if (err)
		return err;
	grid_session_took(&session, n);
	return session.left ? 0 : tell_taken();
}

static int take_ack(void)
{
	u8 payload[8];
	int err;

	err = read_all(payload, sizeof(payload));
	if (err)
		return err;
	hold_lock();
	err = grid_session_acked(&session, payload);
	let_go();
	return err;
}

/* One frame's header; *shown: it is one for the caller. */
static int take_head(struct skep_frame *f, int *shown)
{
	int err;

	err = read_all((u8 *)f, sizeof(*f));
	if (!err)
		err = grid_session_head(&session, f);
	if (err)
		return err;
	*shown = f->type != SKEP_ACK && f->type != SKEP_PING;
	if (f->type == SKEP_PING && f->length)
		return fail_session(-EPROTO, "received a PING with a payload");
	return f->type == SKEP_ACK ? take_ack() : 0;
}

int stream_try(struct skep_frame *f, int *shown)
{
	int err;

	if (session.left)
		return fail_session(-EPROTO,
				    "a frame is longer than its content");
	do
		err = take_head(f, shown);
	while (!err && !*shown && ahead_at < ahead_end);
	if (!err && !f->length)
		err = tell_taken();
	if (!err && f->type == SKEP_BYE)
		return STREAM_ENDED;
	return err;
}

int stream_next(struct skep_frame *f)
{
	int err, shown = 0;

	do
		err = stream_try(f, &shown);
	while (!err && !shown);
	return err;
}

/* The window is full: nothing but an ACK can help, and nothing else may come.
 */
static int await_ack(void)
{
	struct skep_frame f;
	int err, shown;

	err = take_head(&f, &shown);
	if (!err && shown)
		return f.type == SKEP_BYE
			       ? STREAM_ENDED
			       : fail_session(
					 -EPROTO,
					 "received a frame inside a result");
	return err;
}

/* Opening ------------------------------------------------------------------ */

int stream_open(int fd)
{
	struct grid_greeting out;
	struct skep_frame f;
	u8 payload[sizeof(struct skep_hello)];
	struct grid_piece piece = {&out, sizeof(out)};
	u64 done = 0, len;
	int err;

	stream = fd;
	grid_session_init(&session, NULL);
	session.forget = 1;
	grid_session_greet(&session, &out);
	while (done < sizeof(out)) {
		ssize_t n = write(fd, (const u8 *)piece.bytes + done,
				  piece.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_session(STREAM_ENDED,
					    "the agent closed the stream");
		done += (u64)n;
	}
	err = read_all((u8 *)&f, sizeof(f));
	len = f.length < sizeof(payload) ? f.length : sizeof(payload);
	if (!err)
		err = read_all(payload, len);
	return err ? err : grid_session_attach(&session, &f, payload, len);
}
