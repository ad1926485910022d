// SPDX-License-Identifier: MIT
/*
 * The session's state machine. Owns the copies of short pieces; longer ones
 * belong to the caller. It has no lock: the caller's lock guards the struct.
 *
 * The ends of frames are not stored: every frame's header stays in the queue
 * until the peer has it, and is read again to find the next one.
 */
#include "session.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

_Static_assert((GRID_COPIES & (GRID_COPIES - 1)) == 0, "masked");

static int break_session(struct grid_session *s, const char *why)
{
	s->why = why;
	return -EPROTO;
}

void grid_session_init(struct grid_session *s, const u8 *id)
{
	memset(s, 0, offsetof(struct grid_session, part));
	if (id)
		memcpy(s->id, id, sizeof(s->id));
}

static int type_counts(u16 type)
{
	return type != SKEP_HELLO && type != SKEP_ACK;
}

/* Queue -------------------------------------------------------------------- */

static struct grid_part *part_at(struct grid_session *s, u32 i)
{
	return &s->part[(s->first + i) % GRID_PARTS];
}

/* Reads n bytes at a place that is still queued. */
static void peek_bytes(struct grid_session *s, u64 at, void *to, u64 n)
{
	const struct grid_part *p;
	u64 skip, len;
	u32 i;

	for (i = 0; i < s->parts && n; i++) {
		p = part_at(s, i);
		if (p->at + p->len <= at)
			continue;
		skip = at - p->at;
		len = p->len - skip < n ? p->len - skip : n;
		memcpy(to, p->bytes + skip, len);
		to = (u8 *)to + len;
		at += len;
		n -= len;
	}
}

/* The first end of a frame at or after `place`; `end` is the end of an earlier
 * frame. */
static u64 frame_end(struct grid_session *s, u64 end, u64 place)
{
	struct skep_frame f;

	while (end < place) {
		memset(&f, 0, sizeof(f));
		peek_bytes(s, end, &f, sizeof(f));
		end += sizeof(f) + f.length;
	}
	return end;
}

/* Drops the bytes before `place`. */
static void release_before(struct grid_session *s, u64 place)
{
	struct grid_part *p;
	u64 n;

	while (s->parts) {
		p = part_at(s, 0);
		if (p->at >= place)
			return;
		n = place - p->at < p->len ? place - p->at : p->len;
		if (p->copied)
			s->copies_out += n;
		p->at += n;
		p->bytes += n;
		p->len -= (u32)n;
		if (p->len)
			return;
		s->first = (s->first + 1) % GRID_PARTS;
		s->parts--;
	}
	if (s->forget) /* reuses the same few pages */
		s->copies_in = s->copies_out = 0;
}

static void set_acknowledged(struct grid_session *s, u64 place)
{
	s->acked = place;
	if (s->forget)
		return;
	s->edge = frame_end(s, s->edge, place);
	release_before(s, place);
}

/* Opening ------------------------------------------------------------------ */

void grid_session_cut(struct grid_session *s)
{
	s->attached = 0;
	s->ack_left = 0;
	if (!type_counts(s->frame.type))
		s->left = 0;
}

void grid_session_greet(struct grid_session *s, struct grid_greeting *g)
{
	grid_session_cut(s);
	memset(g, 0, sizeof(*g));
	g->frame.type = SKEP_HELLO;
	g->frame.length = sizeof(g->hello);
	g->hello.magic = SKEP_SESSION_MAGIC;
	g->hello.revision = SKEP_SESSION_REVISION;
	g->hello.received = s->received;
	memcpy(g->hello.session, s->id, sizeof(s->id));
}

/* Magic and revision are first in every revision; what follows may differ. */
static int hello_ok(struct grid_session *s, const struct skep_frame *f,
		    const struct skep_hello *h, u64 len)
{
	if (f->type != SKEP_HELLO || f->call || f->flags ||
	    f->length > SKEP_FRAME_MAX || len < 8 ||
	    h->magic != SKEP_SESSION_MAGIC)
		return break_session(
			s, "the peer does not speak skep's session protocol");
	s->theirs = h->revision;
	if (h->revision != SKEP_SESSION_REVISION) {
		s->why = "the peer speaks another session revision";
		return -EPROTONOSUPPORT;
	}
	if (f->length != sizeof(*h) || len != sizeof(*h))
		return break_session(s, "the peer's HELLO has a wrong length");
	return 0;
}

static int id_is_zero(const u8 id[16])
{
	static const u8 none[16];

	return !memcmp(id, none, sizeof(none));
}

int grid_session_attach(struct grid_session *s, const struct skep_frame *f,
			const void *payload, u64 len)
{
	struct skep_hello h;
	int err;

	memset(&h, 0, sizeof(h));
	memcpy(&h, payload, len < sizeof(h) ? len : sizeof(h));
	err = hello_ok(s, f, &h, len);
	if (err)
		return err;
	if (!id_is_zero(h.session) && !id_is_zero(s->id) &&
	    memcmp(h.session, s->id, sizeof(s->id)) != 0)
		return break_session(s, "the peer is in another session");
	if (h.received > s->sent || h.received < s->acked ||
	    (s->forget && h.received != s->written))
		return break_session(s, "the peer acknowledged bytes that were "
					"not sent, or lost some");
	if (id_is_zero(s->id))
		memcpy(s->id, h.session, sizeof(s->id));
	set_acknowledged(s, h.received);
	if (!s->forget) {
		s->written = h.received;
		s->boundary = s->edge;
	}
	s->ack_sent = s->received;
	s->attached = 1;
	return 0;
}

/* In ----------------------------------------------------------------------- */

int grid_session_head(struct grid_session *s, const struct skep_frame *f)
{
	if (f->type <= SKEP_HELLO || f->type > SKEP_RETURN)
		return break_session(s, "received a frame of an unknown type");
	if (f->length > SKEP_FRAME_MAX)
		return break_session(s, "received a frame that is too long");
	if (f->flags & ~SKEP_LAST || (f->flags && f->type != SKEP_DATA))
		return break_session(s, "received a frame with unknown flags");
	if (f->type == SKEP_ACK && f->length != 8)
		return break_session(s, "received an ACK of a wrong length");
	s->frame = *f;
	s->left = f->length;
	if (type_counts(f->type))
		s->received += sizeof(*f);
	return 0;
}

void grid_session_took(struct grid_session *s, u64 n)
{
	s->left -= (u32)n;
	if (type_counts(s->frame.type))
		s->received += n;
}

int grid_session_acked(struct grid_session *s, const void *payload)
{
	u64 place;

	memcpy(&place, payload, sizeof(place));
	s->left = 0;
	if (place < s->acked || place > s->written)
		return break_session(
			s, "received an ACK of bytes that were not sent");
	set_acknowledged(s, place);
	return 0;
}

void grid_session_has(struct grid_session *s, u64 place)
{
	if (place > s->acked && place <= s->written)
		set_acknowledged(s, place);
}

/* Out ---------------------------------------------------------------------- */

int grid_session_room(const struct grid_session *s, u64 n)
{
	return n <= SKEP_SESSION_WINDOW &&
	       s->queued - s->acked <= SKEP_SESSION_WINDOW - n &&
	       s->parts + 4 <= GRID_PARTS &&
	       s->copies_in - s->copies_out + sizeof(struct skep_frame) <=
		       GRID_COPIES;
}

static void add_part(struct grid_session *s, const void *bytes, u64 len,
		     u32 copied)
{
	struct grid_part *p = s->parts ? part_at(s, s->parts - 1) : NULL;

	if (p && copied && p->copied && p->bytes + p->len == bytes) {
		p->len += (u32)len;
	} else {
		p = part_at(s, s->parts++);
		p->at = s->queued;
		p->bytes = bytes;
		p->len = (u32)len;
		p->copied = copied;
	}
	s->queued += len;
}

static void add_copy(struct grid_session *s, const u8 *bytes, u64 len)
{
	u64 at, n;

	while (len) {
		at = s->copies_in & (GRID_COPIES - 1);
		n = GRID_COPIES - at < len ? GRID_COPIES - at : len;
		memcpy(s->copy + at, bytes, n);
		add_part(s, s->copy + at, n, 1);
		s->copies_in += n;
		bytes += n;
		len -= n;
	}
}

int grid_session_frame(struct grid_session *s, u16 type, u16 flags, u64 call,
		       u32 len)
{
	struct skep_frame f = {len, type, flags, call};

	if (s->queued != s->framed || len > SKEP_FRAME_MAX)
		return -EINVAL;
	if (!grid_session_room(s, sizeof(f) + len))
		return -EAGAIN;
	s->framed = s->queued + sizeof(f) + len;
	add_copy(s, (const u8 *)&f, sizeof(f));
	return 0;
}

int grid_session_put(struct grid_session *s, const void *bytes, u64 len,
		     int own)
{
	int copied = !own || len < GRID_COPY_BELOW;

	if (len > s->framed - s->queued)
		return -EINVAL;
	/* A copy that wraps around the buffer is two parts. */
	if (s->parts + 2 > GRID_PARTS ||
	    (copied && len > GRID_COPIES - (s->copies_in - s->copies_out)))
		return -EAGAIN;
	if (copied)
		add_copy(s, bytes, len);
	else
		add_part(s, bytes, len, 0);
	return 0;
}

static int ack_due(const struct grid_session *s)
{
	return s->received - s->ack_sent >= SKEP_ACK_EVERY;
}

static u32 out_ack(struct grid_session *s, struct grid_piece *piece)
{
	if (!s->ack_left) {
		memset(&s->ack, 0, sizeof(s->ack));
		s->ack.frame.type = SKEP_ACK;
		s->ack.frame.length = 8;
		s->ack.received = s->received;
		s->ack_sent = s->received;
		s->ack_left = sizeof(s->ack);
	}
	piece->bytes = (u8 *)&s->ack + sizeof(s->ack) - s->ack_left;
	piece->len = s->ack_left;
	return 1;
}

u32 grid_session_out(struct grid_session *s, struct grid_piece *piece, u32 max)
{
	const struct grid_part *p;
	u64 limit = s->queued, skip;
	u32 i, n = 0;

	if (!s->attached)
		return 0;
	if (s->ack_left || (ack_due(s) && s->written == s->boundary))
		return out_ack(s, piece);
	if (ack_due(s) && s->boundary < limit)
		limit = s->boundary;
	for (i = 0; i < s->parts && n < max; i++) {
		p = part_at(s, i);
		if (p->at >= limit)
			break;
		if (p->at + p->len <= s->written)
			continue;
		skip = s->written > p->at ? s->written - p->at : 0;
		piece[n].bytes = p->bytes + skip;
		piece[n].len = p->at + p->len < limit ? p->len - skip
						      : limit - p->at - skip;
		n++;
	}
	return n;
}

void grid_session_wrote(struct grid_session *s, u64 n)
{
	if (s->ack_left) {
		s->ack_left -= (u32)n;
		return;
	}
	s->written += n;
	if (s->written > s->sent)
		s->sent = s->written;
	s->boundary = frame_end(s, s->boundary, s->written);
	if (s->forget)
		release_before(s, s->written);
}
