// SPDX-License-Identifier: MIT
/*
 * The records of an encrypted link (o2g/core/record.h), between socket and
 * core. What the core wants to write is copied into records, which are sealed
 * once and sent, if need be in parts. What arrives is collected until a record
 * is complete; only then is it decrypted and passed on, so the core never gets
 * a byte that was not verified. The engine's lock guards all of it.
 */
#include "engine.h"

#include <o2g/lib/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define GATHER 32
/* Records that one system call reads or writes. */
#define RECORDS 4
#define BUFFER (RECORDS * O2G_RECORD_MAX)

struct o2g_sealed {
	struct o2g_seal seals, opens;
	u32 out_sent, out_have; /* of `out` */
	u32 in_have;		/* of `in`: records that are not decrypted */
	u8 out[BUFFER], in[BUFFER];
};

/* The pages of the buffers that are not used are not allocated: links with
 * small messages only have one of each. */
struct o2g_sealed *o2g_sealed_make(const struct o2g_keys *keys)
{
	struct o2g_sealed *s = malloc(sizeof(*s));

	if (!s)
		return 0;
	o2g_seal_start(&s->seals, keys->out);
	o2g_seal_start(&s->opens, keys->in);
	s->out_sent = s->out_have = s->in_have = 0;
	return s;
}

void o2g_sealed_free(struct o2g_sealed *s)
{
	if (!s)
		return;
	explicit_bzero(&s->seals, sizeof(s->seals));
	explicit_bzero(&s->opens, sizeof(s->opens));
	free(s);
}

/* ---- reading ---- */

static int record_refused(int error)
{
	o2g_error_log("an encrypted connection brought %s: it was changed on "
		      "its way, and the connection ends",
		      error == -EBADMSG ? "a record that does not verify"
					: "something that is no record");
	return error;
}

/* Decrypts the record at `at`, of which `have` bytes have arrived, and passes
 * it on: returns its size, 0 if it is not complete, or -errno. */
static int open_record(struct o2g_engine *e, struct o2g_link *link, u8 *at,
		       u32 have)
{
	const int size = o2g_record_size(at, have);
	int r;

	if (size < 0)
		return record_refused(size);
	if (size == 0 || (u32)size > have)
		return 0;
	r = o2g_record_open(&link->sealed->opens, at, (u32)size);
	if (r < 0)
		return record_refused(r);
	r = o2g_link_feed(e, link, at + O2G_RECORD_HEAD, (u64)r);
	return r ? r : size;
}

int o2g_sealed_resume(struct o2g_engine *e, struct o2g_link *link)
{
	struct o2g_sealed *s = link->sealed;
	u32 at = 0;
	int r = 1;

	o2g_engine_assert_locked(e);
	while (r > 0 && !link->blocked) {
		r = open_record(e, link, s->in + at, s->in_have - at);
		at += r > 0 ? (u32)r : 0;
	}
	s->in_have -= at;
	memmove(s->in, s->in + at, s->in_have);
	return r < 0 ? r : 0;
}

s64 o2g_sealed_read(struct o2g_engine *e, struct o2g_link *link, int *drained)
{
	struct o2g_sealed *s = link->sealed;
	const u32 room = BUFFER - s->in_have;
	const s64 n =
		recv(link->socket, s->in + s->in_have, room, MSG_DONTWAIT);
	int r;

	o2g_engine_assert_locked(e);
	*drained = n < room;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (n == 0 && s->in_have > 0)
		return -EPROTO; /* the stream ends inside a record */
	s->in_have += (u32)n;
	r = o2g_sealed_resume(e, link);
	return r ? r : n;
}

/* ---- writing ---- */

/* Copies planned bytes to `text`: returns their number, at most what a record
 * holds, or -errno. For the core they are sent. */
static int fill_text(struct o2g_engine *e, struct o2g_link *link, u8 *text)
{
	u32 length = 0, before;

	do {
		struct o2g_piece piece[GATHER];
		const int n = o2g_tx_gather(link->conn, piece, GATHER);
		int r;

		before = length;
		for (int i = 0; i < n && length < O2G_RECORD_TEXT; i++) {
			u64 part = piece[i].length;

			if (part > O2G_RECORD_TEXT - length)
				part = O2G_RECORD_TEXT - length;
			memcpy(text + length, o2g_link_memory(e, &piece[i]),
			       part);
			length += (u32)part;
		}
		r = o2g_tx_done(link->conn, length - before);
		if (r)
			return r;
	} while (length > before && length < O2G_RECORD_TEXT);
	return (int)length;
}

/* Seals what is to be written, as many records as there is room for. */
static int seal_records(struct o2g_engine *e, struct o2g_link *link)
{
	struct o2g_sealed *s = link->sealed;
	int n = O2G_RECORD_TEXT;

	s->out_sent = s->out_have = 0;
	while (n == O2G_RECORD_TEXT && s->out_have + O2G_RECORD_MAX <= BUFFER) {
		u8 *record = s->out + s->out_have;

		n = fill_text(e, link, record + O2G_RECORD_HEAD);
		if (n > 0)
			s->out_have +=
				o2g_record_seal(&s->seals, record, (u32)n);
	}
	return n < 0 ? n : 0;
}

s64 o2g_sealed_write(struct o2g_engine *e, struct o2g_link *link, u64 *asked)
{
	struct o2g_sealed *s = link->sealed;
	struct iovec rest;
	struct msghdr message = {.msg_iov = &rest, .msg_iovlen = 1};
	s64 n;
	int r = 0;

	o2g_engine_assert_locked(e);
	*asked = 0;
	if (s->out_sent == s->out_have)
		r = seal_records(e, link);
	if (r || s->out_sent == s->out_have)
		return r;
	*asked = s->out_have - s->out_sent;
	rest = (struct iovec){s->out + s->out_sent, *asked};
	n = sendmsg(link->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	s->out_sent += (u32)n;
	return n;
}
