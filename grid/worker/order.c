// SPDX-License-Identifier: MIT
/*
 * Belongs to the main thread, but `busy`, which the pinging one reads.
 */
#define _GNU_SOURCE
#include "order.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <skep/module.h>

#include "stream.h"

#define DATA_MAX 0x40000

static int busy;

void order_set_busy(int now)
{
	__atomic_store_n(&busy, now, __ATOMIC_RELAXED);
}

/* Opening ------------------------------------------------------------------ */

int order_stream(void)
{
	const char *text = getenv("SKEP_STREAM");
	char *end;
	long n;

	if (!text || !*text)
		return -1;
	n = strtol(text, &end, 10);
	return *end || n < 3 || n > 0xffff ? -1 : (int)n;
}

/* It checks every few seconds instead of being notified: a call that takes
 * microseconds does not pay for it. */
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
	pthread_attr_t a;
	pthread_t t;
	int err;

	err = pthread_attr_init(&a);
	if (!err)
		err = pthread_attr_setstacksize(&a, 0x10000);
	if (!err)
		err = pthread_create(&t, &a, ping_thread, NULL);
	return err ? -EAGAIN : 0;
}

int order_open(int fd)
{
	int err;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	err = stream_open(fd);
	return err ? err : start_pinging();
}

int order_ready(u32 functions, const struct skep_proof *proof)
{
	struct skep_ready r = {SKEP_MODULE_REVISION, functions, *proof};
	int err;

	err = stream_frame(SKEP_READY, 0, 0, sizeof(r));
	if (!err)
		err = stream_put(&r, sizeof(r), 0);
	return err ? err : stream_flush();
}

/* Refusals ----------------------------------------------------------------- */

int order_refuse(u64 call, u32 code, const char *text)
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

/* INIT --------------------------------------------------------------------- */

int order_read_init(const struct skep_frame *f, struct skep_init *init,
		    char *path)
{
	int err;

	if (f->length < sizeof(*init) || f->call)
		return -EPROTO;
	err = stream_read(init, sizeof(*init));
	if (err)
		return err;
	if (init->path != f->length - sizeof(*init) ||
	    init->path >= ORDER_PATH_MAX)
		return -EPROTO;
	err = stream_read(path, init->path);
	if (err)
		return err;
	path[init->path] = 0;
	return strlen(path) == init->path ? 0 : -EPROTO;
}

/* /proc may not be there, what was inherited is. */
int order_open_data(const char *path)
{
	static const char inherited[] = "/proc/self/fd/";
	int fd;

	if (!strncmp(path, inherited, sizeof(inherited) - 1))
		fd = atoi(path + sizeof(inherited) - 1);
	else
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* An inherited descriptor's own position is not ours alone. */
int order_read_data(int fd, u8 *to, u64 len, u64 at)
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

/* CALL --------------------------------------------------------------------- */

int order_read_call(const struct skep_frame *f, struct skep_call *call,
		    struct order_source *s)
{
	int err = f->length == sizeof(*call) ? 0 : -EPROTO;

	if (!err)
		err = stream_read(call, sizeof(*call));
	if (err)
		return err;
	s->call = f->call;
	s->left = call->length;
	s->last = 0;
	return 0;
}

/* DATA --------------------------------------------------------------------- */

static int next_data(struct order_source *s)
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

int order_take(struct order_source *s, u8 *to, u64 len)
{
	u8 dropped[0x1000];
	int err = 0;
	u64 n;

	while (len && !err) {
		if (!stream_left()) {
			err = next_data(s);
			continue;
		}
		n = stream_left() < len ? stream_left() : len;
		if (!to && n > sizeof(dropped))
			n = sizeof(dropped);
		err = stream_read(to ? to : dropped, n);
		s->left -= n;
		to += to ? n : 0;
		len -= n;
	}
	return err;
}

int order_drop_rest(struct order_source *s)
{
	int err = order_take(s, NULL, s->left);

	return err || s->last ? err : next_data(s);
}

int order_put_result(struct order_sink *s, u64 call, u64 length, u64 exec_ns,
		     const struct skep_proof *proof)
{
	struct skep_result r;
	int err;

	memset(&r, 0, sizeof(r));
	r.length = length;
	r.exec_ns = exec_ns;
	r.proof = *proof;
	*s = (struct order_sink){call, length, 0};
	err = stream_frame(SKEP_RESULT, 0, call, sizeof(r));
	if (!err)
		err = stream_put(&r, sizeof(r), 0);
	if (!err && !length)
		err = stream_frame(SKEP_DATA, SKEP_LAST, call, 0);
	return err;
}

int order_put(struct order_sink *s, const u8 *bytes, u64 len, int own)
{
	int err = 0;
	u64 n;

	for (; len && !err; bytes += n, len -= n) {
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
	}
	return err;
}
