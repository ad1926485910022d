// SPDX-License-Identifier: MIT
/*
 * Owns the socket. lock guards the counts of bytes sent and acknowledged, and
 * which thread owns the current frame. Writing happens without the lock, so
 * that the reader waits for one frame at most, which the hub always accepts.
 */
#include "stream.h"

#include "memory.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SEND_ROOM 0x100000
#define COPY_BELOW 512 /* bytes; cheaper to copy than to list */

/* Opening ----------------------------------------------------------------- */

u64 grid_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

/* Nanoseconds that are left, 0 if none. */
static u64 time_left(u64 until)
{
	u64 now = grid_clock();

	return until > now ? until - now : 0;
}

u64 grid_patience_until(const struct grid_patience *p)
{
	return grid_clock() + (p->left < GRID_TRY ? p->left : GRID_TRY);
}

int grid_patience_spend(struct grid_patience *p, u64 span)
{
	if (span > GRID_TRY)
		span = GRID_TRY;
	p->left -= span < p->left ? span : p->left;
	return p->left > 0;
}

/* connect waits while the queue of a hub that does not accept is full;
 * unix(7), socket(7). */
static int connect_until(int fd, const struct sockaddr_un *to, u64 until)
{
	u64 us = time_left(until) / 1000 + 1; /* 0 would be without end */
	struct timeval limit = {(time_t)(us / 1000000),
				(suseconds_t)(us % 1000000)};
	int err = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		return -errno;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	memset(&limit, 0, sizeof(limit));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		err = -errno;
	return err;
}

static int dial_hub(const char *path, u64 until)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const int room = SEND_ROOM;
	int fd, err;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* Frames of arguments fit, so that the two sides wait for each other
	 * less often. The system gives what its limit allows. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	err = connect_until(fd, &to, until);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static ssize_t send_some(struct grid_stream *s, struct iovec *piece, u32 count)
{
	struct msghdr m = {.msg_iov = piece, .msg_iovlen = count};
	ssize_t n;

	do {
		n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* In place of memory that cannot be read: the frame must keep its length. */
static ssize_t send_zeros(struct grid_stream *s, const struct iovec *piece)
{
	static u8 zeros[0x1000];
	u64 len = piece->iov_len;
	struct iovec some = {zeros, len < sizeof(zeros) ? len : sizeof(zeros)};

	if (!s->out.unreadable)
		s->out.unreadable = piece->iov_base;
	return send_some(s, &some, 1);
}

static int write_pieces(struct grid_stream *s, struct iovec *piece, u32 count)
{
	u32 together = count;
	ssize_t n;

	while (count) {
		n = send_some(s, piece, together < count ? together : count);
		if (n == -EFAULT && together > 1) {
			together = 1; /* which of them is it? */
			continue;
		}
		if (n == -EFAULT)
			n = send_zeros(s, piece);
		if (n < 0)
			return -EPIPE;
		for (; count && (u64)n >= piece->iov_len; piece++, count--)
			n -= (ssize_t)piece->iov_len;
		if (count) {
			piece->iov_base = (u8 *)piece->iov_base + n;
			piece->iov_len -= (u64)n;
		}
	}
	return 0;
}

static int say_hello(struct grid_stream *s, u16 flags)
{
	struct {
		struct skep_frame head;
		struct skep_hello hello;
	} out = {{sizeof(out.hello), SKEP_HELLO, flags, 0},
		 {SKEP_SESSION_MAGIC, SKEP_SESSION_REVISION, {0}, 0}};
	struct iovec piece = {&out, sizeof(out)};

	memcpy(out.hello.session, s->session, sizeof(s->session));
	return write_pieces(s, &piece, 1);
}

/* HELLO may be longer in other revisions; magic and revision are always
 * first. */
static int read_hello(struct grid_stream *s, u32 *theirs)
{
	struct skep_hello hello = {0};
	struct skep_frame head;
	int err;

	err = grid_stream_read(s, &head, sizeof(head));
	if (err)
		return err;
	if (head.type != SKEP_HELLO || head.length < 8 ||
	    head.length > SKEP_FRAME_MAX)
		return -EPROTO;
	err = grid_stream_read(s, &hello, 8);
	if (err)
		return err;
	if (hello.magic != SKEP_SESSION_MAGIC)
		return -EPROTO;
	*theirs = hello.revision;
	if (hello.revision != SKEP_SESSION_REVISION ||
	    head.length != sizeof(hello))
		return -EPROTO;
	err = grid_stream_read(s, (u8 *)&hello + 8, sizeof(hello) - 8);
	s->keeps = head.flags & SKEP_AGAIN;
	return !err && hello.received ? -EPROTO : err;
}

static int hear_hello(struct grid_stream *s, u64 until, u32 *theirs)
{
	int err;

	s->until = until;
	err = read_hello(s, theirs);
	s->until = 0;
	return err;
}

int grid_stream_open(struct grid_stream *s, const char *path, u64 until,
		     u32 *theirs)
{
	int err;

	*theirs = 0;
	memset(s, 0, sizeof(*s));
	if (getrandom(s->session, sizeof(s->session), 0) != 16)
		return -EIO;
	s->fd = dial_hub(path, until);
	if (s->fd < 0)
		return s->fd;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	err = say_hello(s, 0);
	if (!err)
		err = hear_hello(s, until, theirs);
	if (err)
		grid_stream_close(s);
	return err;
}

/* Returns when no sender uses the old descriptor. No sender begins while `dead`
 * is set. */
static void replace_fd(struct grid_stream *s, int fd)
{
	pthread_mutex_lock(&s->lock);
	while (s->busy)
		pthread_cond_wait(&s->changed, &s->lock);
	close(s->fd);
	s->fd = fd;
	pthread_mutex_unlock(&s->lock);
	s->out.pieces = s->out.staged = 0;
	s->received = s->ack_sent = 0;
	s->in_at = s->in_end = 0;
}

int grid_stream_reopen(struct grid_stream *s, const char *path, u64 until,
		       u32 *theirs)
{
	int fd = dial_hub(path, until), err;

	*theirs = 0;
	if (fd < 0)
		return fd;
	replace_fd(s, fd);
	err = say_hello(s, SKEP_AGAIN);
	if (!err)
		err = hear_hello(s, until, theirs);
	if (err) {
		grid_stream_cut(s);
		return err;
	}
	pthread_mutex_lock(&s->lock);
	s->sent = s->acked = 0;
	s->dead = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void grid_stream_cut(struct grid_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->dead = 1;
	shutdown(s->fd, SHUT_RDWR);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void grid_stream_close(struct grid_stream *s)
{
	close(s->fd);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
}

/* Sending ----------------------------------------------------------------- */

static int lock_frame(struct grid_stream *s, u64 bytes, u64 window)
{
	int err = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->dead && (s->busy || s->sent + bytes - s->acked > window))
		pthread_cond_wait(&s->changed, &s->lock);
	if (s->dead) {
		err = -EPIPE;
	} else {
		s->busy = 1;
		s->sent += bytes;
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

static void unlock_frame(struct grid_stream *s, int err)
{
	pthread_mutex_lock(&s->lock);
	s->busy = 0;
	s->dead |= !!err;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int flush_pieces(struct grid_stream *s)
{
	int err = write_pieces(s, s->out.piece, s->out.pieces);

	s->out.pieces = 0;
	s->out.staged = 0;
	return err;
}

int grid_stream_begin(struct grid_stream *s, u64 bytes)
{
	return lock_frame(s, bytes, SKEP_SESSION_WINDOW);
}

static void add_bytes(struct grid_stream *s, const void *bytes, u64 len)
{
	struct iovec *last = s->out.piece + s->out.pieces - 1;

	if (s->out.pieces &&
	    (const u8 *)last->iov_base + last->iov_len == bytes)
		last->iov_len += len;
	else
		s->out.piece[s->out.pieces++] =
			(struct iovec){(void *)bytes, len};
}

static int push_copy(struct grid_stream *s, const void *bytes, u64 len)
{
	u8 *to;

	if (len > GRID_STREAM_STAGE - s->out.staged && flush_pieces(s))
		return -EPIPE;
	to = s->out.stage + s->out.staged;
	memcpy(to, bytes, len);
	s->out.staged += (u32)len;
	add_bytes(s, to, len);
	return 0;
}

int grid_stream_push(struct grid_stream *s, const void *bytes, u64 len, int own)
{
	u64 part;
	int err = 0;

	if (s->out.pieces == GRID_STREAM_PIECES)
		err = flush_pieces(s);
	if (own && len >= COPY_BELOW) {
		if (!err)
			add_bytes(s, bytes, len);
		return err;
	}
	for (; len && !err; len -= part, bytes = (const u8 *)bytes + part) {
		part = len < COPY_BELOW ? len : COPY_BELOW;
		if (s->out.pieces == GRID_STREAM_PIECES)
			err = flush_pieces(s);
		if (!err)
			err = push_copy(s, bytes, part);
	}
	return err;
}

int grid_stream_next(struct grid_stream *s, u16 type, u16 flags, u64 call,
		     u32 length)
{
	struct skep_frame head = {length, type, flags, call};

	return grid_stream_push(s, &head, sizeof(head), 0);
}

int grid_stream_flush(struct grid_stream *s, const void **unreadable)
{
	int err = flush_pieces(s);

	*unreadable = s->out.unreadable;
	s->out.unreadable = NULL;
	return err;
}

int grid_stream_end(struct grid_stream *s)
{
	int err = flush_pieces(s);

	unlock_frame(s, err);
	return err;
}

int grid_stream_send(struct grid_stream *s, u16 type, u64 call,
		     const void *payload, u32 length)
{
	int err = grid_stream_begin(s, sizeof(struct skep_frame) + length);

	if (err)
		return err;
	err = grid_stream_next(s, type, 0, call, length);
	if (!err)
		err = grid_stream_push(s, payload, length, 1);
	return grid_stream_end(s) || err ? -EPIPE : 0;
}

/* ACK frames are not counted, and do not wait for the window. */
static int send_ack(struct grid_stream *s)
{
	int err = lock_frame(s, 0, ~0ull);

	if (err)
		return err;
	s->ack_sent = s->received;
	err = grid_stream_next(s, SKEP_ACK, 0, 0, 8);
	if (!err)
		err = grid_stream_push(s, &s->received, 8, 0);
	return grid_stream_end(s) || err ? -EPIPE : 0;
}

/* Reading ----------------------------------------------------------------- */

/* Returns when there is something to read, or nothing will come. */
static int wait_readable(const struct grid_stream *s)
{
	struct pollfd p = {s->fd, POLLIN, 0};
	u64 left;
	int n;

	do {
		left = time_left(s->until);
		n = poll(&p, 1, left ? (int)(left / 1000000 + 1) : 0);
	} while (n < 0 && errno == EINTR);
	return n ? 0 : -ETIMEDOUT;
}

static ssize_t recv_bytes(struct grid_stream *s, void *to, u64 len)
{
	ssize_t n;

	if (s->until && wait_readable(s))
		return -ETIMEDOUT;
	do {
		n = recv(s->fd, to, len, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EFAULT) /* nothing was taken from the socket */
		return -EFAULT;
	return n > 0 ? n : -EPIPE;
}

/* Drops what no place was found for: the next frame must begin where it does.
 */
static int skip_unwritable(struct grid_stream *s, u64 len)
{
	int err = grid_stream_skip(s, len);

	return err ? err : -EFAULT;
}

int grid_stream_read(struct grid_stream *s, void *to, u64 len)
{
	u64 have;
	ssize_t n;

	while (len) {
		have = s->in_end - s->in_at;
		if (!have && len < sizeof(s->in)) {
			n = recv_bytes(s, s->in, sizeof(s->in));
			if (n < 0)
				return (int)n;
			s->in_at = 0;
			s->in_end = (u32)n;
			continue;
		}
		if (have) {
			n = (ssize_t)(have < len ? have : len);
			if (grid_memory_write(to, s->in + s->in_at, (u64)n))
				return skip_unwritable(s, len);
			s->in_at += (u32)n;
		} else {
			n = recv_bytes(s, to, len);
		}
		if (n == -EFAULT)
			return skip_unwritable(s, len);
		if (n < 0)
			return (int)n;
		to = (u8 *)to + n;
		len -= (u64)n;
	}
	return 0;
}

int grid_stream_skip(struct grid_stream *s, u64 len)
{
	u8 away[4096];
	u64 part;
	int err = 0;

	for (; len && !err; len -= part) {
		part = len < sizeof(away) ? len : sizeof(away);
		err = grid_stream_read(s, away, part);
	}
	return err;
}

static int handle_ack(struct grid_stream *s, u32 length)
{
	u64 received;
	int err;

	if (length != 8)
		return -EPROTO;
	err = grid_stream_read(s, &received, 8);
	if (err)
		return err;
	pthread_mutex_lock(&s->lock);
	if (received < s->acked || received > s->sent)
		err = -EPROTO;
	else
		s->acked = received;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return err;
}

void grid_stream_ack(struct grid_stream *s)
{
	if (s->received > s->ack_sent)
		send_ack(s);
}

/* What the frame before had is read by now. */
int grid_stream_head(struct grid_stream *s, struct skep_frame *frame)
{
	int err = 0;

	do {
		if (s->received - s->ack_sent >= SKEP_ACK_EVERY)
			err = send_ack(s);
		if (!err)
			err = grid_stream_read(s, frame, sizeof(*frame));
		if (!err && frame->length > SKEP_FRAME_MAX)
			err = -EPROTO;
		if (!err && frame->type == SKEP_ACK)
			err = handle_ack(s, frame->length);
	} while (!err && frame->type == SKEP_ACK);
	if (!err && (frame->type == SKEP_HELLO || !frame->type ||
		     frame->type > SKEP_RETURN))
		err = -EPROTO;
	if (!err)
		s->received += sizeof(*frame) + frame->length;
	return err;
}
