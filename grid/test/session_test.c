// SPDX-License-Identifier: MIT
/*
 * The session's state machine: two of them talk over a stream that is cut at
 * random places, and every rule about a peer is broken once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grid/core/session.h"
#include "tests/tap.h"

#define STREAM 0x10000 /* bytes under way in one direction */
#define ENDS 200       /* cuts in one run */

/* One side: its session, what it is to send, what it got. */
struct side {
	struct grid_session s;
	u8 pipe[STREAM]; /* towards this side */
	u32 have;
	u32 frames_to_send, sent, got, at; /* got: whole frames */
	u32 len, done;			   /* of the frame that is being put */
	int bad;
};

static struct side *a, *b;
static u64 seed;
static u8 bulk[0x100000];

static u32 random_below(u32 n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % n;
}

/* Length and content of frame i follow from i. */
static u32 length_of(u32 i)
{
	u32 kind = i * 2654435761u >> 28;

	return kind < 8	   ? 0
	       : kind < 14 ? i * 40503u % 5000
			   : 20000 + i * 40503u % 100000;
}

static u8 byte_of(u32 at)
{
	return bulk[at % sizeof(bulk)];
}

/* In two pieces, of which each may have to wait. */
static int write_frames(struct side *x)
{
	u32 half = x->len / 2, end;

	while (x->done < x->len) {
		end = x->done < half ? half : x->len;
		if (grid_session_put(&x->s, bulk + x->done, end - x->done, 1))
			return 0;
		x->done = end;
	}
	return 1;
}

static void fill_output(struct side *x)
{
	while (write_frames(x) && x->sent < x->frames_to_send) {
		x->len = length_of(x->sent);
		x->done = x->len;
		if (grid_session_frame(&x->s, SKEP_DATA, SKEP_LAST, x->sent,
				       x->len))
			return;
		x->done = 0;
		x->sent++;
	}
}

/* Move some bytes of what x has to write into the other's pipe. */
static void carry_bytes(struct side *x, struct side *to)
{
	struct grid_piece piece[4];
	u32 n = grid_session_out(&x->s, piece, 4), i, len;
	u64 done = 0;

	for (i = 0; i < n && to->have < STREAM; i++) {
		len = STREAM - to->have;
		if (len > piece[i].len)
			len = (u32)piece[i].len;
		if (len > 1 && random_below(3) == 0)
			len = 1 + random_below(len);
		memcpy(to->pipe + to->have, piece[i].bytes, len);
		to->have += len;
		done += len;
		if (len < piece[i].len)
			break;
	}
	if (done)
		grid_session_wrote(&x->s, done);
}

static void expect_consumed(struct side *x, u32 n)
{
	memmove(x->pipe, x->pipe + n, x->have - n);
	x->have -= n;
}

static int take_head(struct side *x)
{
	struct skep_frame f;

	if (x->have < sizeof(f))
		return 0;
	memcpy(&f, x->pipe, sizeof(f));
	if (f.type == SKEP_ACK && x->have < sizeof(f) + 8)
		return 0;
	x->bad |= !!grid_session_head(&x->s, &f);
	if (f.type == SKEP_ACK) {
		x->bad |= !!grid_session_acked(&x->s, x->pipe + sizeof(f));
		expect_consumed(x, sizeof(f) + 8);
		return 1;
	}
	expect_consumed(x, sizeof(f));
	x->bad |= f.call != x->got || f.length != length_of(x->got);
	x->at = 0;
	x->got += !f.length;
	return 1;
}

static void read_frames(struct side *x)
{
	u32 n, i;

	while (x->have && !x->bad) {
		if (!x->s.left) {
			if (!take_head(x))
				return;
			continue;
		}
		n = x->s.left < x->have ? x->s.left : x->have;
		for (i = 0; i < n; i++)
			x->bad |= x->pipe[i] != byte_of(x->at + i);
		x->at += n;
		expect_consumed(x, n);
		grid_session_took(&x->s, n);
		x->got += !x->s.left;
	}
}

static int join_sides(void)
{
	struct grid_greeting x, y;

	a->have = 0;
	b->have = 0;
	grid_session_greet(&a->s, &x);
	grid_session_greet(&b->s, &y);
	return !grid_session_attach(&a->s, &y.frame, &y.hello,
				    sizeof(y.hello)) &&
	       !grid_session_attach(&b->s, &x.frame, &x.hello, sizeof(x.hello));
}

static void make_sides(u8 forget)
{
	static const u8 id[16] = {1, 2, 3};

	grid_session_init(&a->s, id);
	grid_session_init(&b->s, NULL);
	a->s.forget = b->s.forget = forget;
	a->have = b->have = a->sent = b->sent = a->got = b->got = 0;
	a->bad = b->bad = 0;
	a->len = b->len = a->done = b->done = 0;
}

/* Returns whether all arrived; cuts: how many there shall be. */
static int exchange_frames(u32 frames, u32 cuts, u8 forget)
{
	u32 turns = 0;

	make_sides(forget);
	a->frames_to_send = frames;
	b->frames_to_send = frames;
	if (!join_sides())
		return 0;
	while ((a->got < frames || b->got < frames) && !a->bad && !b->bad &&
	       turns++ < 10000000) {
		fill_output(a);
		fill_output(b);
		carry_bytes(a, b);
		carry_bytes(b, a);
		if (random_below(2))
			read_frames(a);
		if (random_below(2))
			read_frames(b);
		if (cuts && random_below(frames / 16) == 0 && cuts-- &&
		    !join_sides())
			return 0;
	}
	return !a->bad && !b->bad && a->got == frames && b->got == frames;
}

static void test_talks(void)
{
	u64 s;
	int ok = 1;

	tap_ok(exchange_frames(4000, 0, 0),
	       "frames arrive in order and complete");
	tap_ok(exchange_frames(4000, 0, 1),
	       "a side that drops acknowledged bytes can go on");
	tap_ok(!memcmp(a->s.id, b->s.id, 16), "the peer learns the id");
	for (s = 1; s <= 20 && ok; s++) {
		seed = s;
		ok = exchange_frames(2000, ENDS, 0);
		if (!ok)
			printf("# seed %llu: a got %u, b got %u; %s; %s\n", s,
			       a->got, b->got, a->s.why ? a->s.why : "",
			       b->s.why ? b->s.why : "");
	}
	tap_ok(ok,
	       "after 200 cuts at random places no byte is lost or repeated");
}

/* A peer's HELLO on a fresh session of which 100 bytes were sent. */
static int receive_hello(u32 magic, u32 revision, u64 received, u8 id, u32 len)
{
	struct skep_hello h = {magic, revision, {id}, received};
	struct skep_frame f = {len, SKEP_HELLO, 0, 0};

	make_sides(0);
	join_sides();
	grid_session_frame(&a->s, SKEP_DATA, 0, 1, 84);
	grid_session_put(&a->s, bulk, 84, 1);
	carry_bytes(a, b);
	while (a->s.written < 100)
		carry_bytes(a, b);
	grid_session_cut(&a->s);
	return grid_session_attach(&a->s, &f, &h,
				   len < sizeof(h) ? len : sizeof(h));
}

static void test_hellos(void)
{
	u32 m = SKEP_SESSION_MAGIC, r = SKEP_SESSION_REVISION;

	tap_ok(receive_hello(m, r, 100, 0, 32) == 0 &&
		       receive_hello(m, r, 0, 0, 32) == 0 &&
		       receive_hello(m, r, 50, 0, 32) == 0 &&
		       a->s.written == 50,
	       "a peer resumes at any byte that was sent");
	tap_ok(receive_hello(m, r, 101, 0, 32) == -EPROTO,
	       "a peer cannot resume behind what was sent");
	tap_ok(receive_hello(m, r, 0, 9, 32) == -EPROTO,
	       "a peer of another session is refused");
	tap_ok(receive_hello(m + 1, r, 0, 0, 32) == -EPROTO &&
		       receive_hello(m, r, 0, 0, 31) == -EPROTO &&
		       receive_hello(m, r, 0, 0, 7) == -EPROTO,
	       "an invalid HELLO is refused");
	tap_ok(receive_hello(m, r + 1, 0, 0, 64) == -EPROTONOSUPPORT &&
		       a->s.theirs == r + 1 && strstr(a->s.why, "revision"),
	       "another revision is reported with its number");
	tap_ok(receive_hello(m, r + 1, 0, 0, 8) == -EPROTONOSUPPORT &&
		       receive_hello(m, r + 1, 0, 0, SKEP_FRAME_MAX) ==
			       -EPROTONOSUPPORT &&
		       receive_hello(m, r + 1, 0, 0, SKEP_FRAME_MAX + 1) ==
			       -EPROTO,
	       "another revision's HELLO may have 8 bytes to one MiB");
}

static int header_valid(u16 type, u16 flags, u32 len)
{
	struct skep_frame f = {len, type, flags, 0};

	return grid_session_head(&a->s, &f);
}

static void test_heads(void)
{
	u64 ack = 17;

	make_sides(0);
	join_sides();
	tap_ok(header_valid(0, 0, 0) && header_valid(SKEP_RETURN + 1, 0, 0) &&
		       header_valid(SKEP_HELLO, 0, 32),
	       "a frame of an unknown type or a second HELLO is refused");
	tap_ok(header_valid(SKEP_DATA, 0, SKEP_FRAME_MAX + 1) &&
		       !header_valid(SKEP_DATA, 0, SKEP_FRAME_MAX),
	       "a frame may be one MiB long");
	tap_ok(header_valid(SKEP_DATA, 2, 0) &&
		       header_valid(SKEP_PING, SKEP_LAST, 0),
	       "unknown flags are refused");
	tap_ok(header_valid(SKEP_ACK, 0, 7) && header_valid(SKEP_ACK, 0, 9),
	       "an ACK has 8 bytes");
	make_sides(0);
	join_sides();
	grid_session_frame(&a->s, SKEP_PING, 0, 0, 0);
	tap_ok(grid_session_acked(&a->s, &ack) == -EPROTO,
	       "an ACK of what was not written is refused");
	while (a->s.written < 16)
		carry_bytes(a, b);
	ack = 16;
	tap_ok(!grid_session_acked(&a->s, &ack) &&
		       (ack = 8, grid_session_acked(&a->s, &ack)),
	       "an ACK never goes back");
}

/* Two frames of 16 copied bytes and 16 KiB kept by reference. */
static void test_releases(void)
{
	const u64 frame = sizeof(struct skep_frame) + GRID_COPY_BELOW;
	const struct {
		u64 place;
		u32 parts, copied;
	} after[] = {{8, 4, 24},     {16, 3, 16},	 {100, 3, 16},
		     {frame, 2, 16}, {frame + 16, 1, 0}, {2 * frame, 0, 0}};
	u32 i, bad = 0;

	make_sides(0);
	join_sides();
	for (i = 0; i < 2; i++)
		bad |= grid_session_frame(&a->s, SKEP_DATA, 0, i,
					  GRID_COPY_BELOW) ||
		       grid_session_put(&a->s, bulk, GRID_COPY_BELOW, 1);
	while (!bad && a->s.written < a->s.queued)
		carry_bytes(a, b);
	for (i = 0; i < sizeof(after) / sizeof(*after); i++) {
		bad |= !!grid_session_acked(&a->s, &after[i].place);
		bad |= a->s.parts != after[i].parts ||
		       a->s.copies_in - a->s.copies_out != after[i].copied;
	}
	tap_ok(!bad, "what the peer has acknowledged takes no more room");
}

/* The last byte for copies is used. */
static void test_full(void)
{
	u64 left;
	int rc;

	make_sides(0);
	join_sides();
	rc = grid_session_frame(&a->s, SKEP_DATA, 0, 0, GRID_COPIES);
	left = GRID_COPIES - (a->s.copies_in - a->s.copies_out);
	tap_ok(!rc && left < GRID_COPIES &&
		       grid_session_put(&a->s, bulk, left + 1, 0) == -EAGAIN &&
		       !grid_session_put(&a->s, bulk, left, 0),
	       "there is room for all copies, and not for a byte more");
}

static void test_windows(void)
{
	struct grid_piece piece;
	u32 n = 0;

	make_sides(0);
	join_sides();
	while (!grid_session_frame(&a->s, SKEP_DATA, 0, 0, 0x40000 - 16) &&
	       !grid_session_put(&a->s, bulk, 0x40000 - 16, 1))
		n++;
	tap_ok(n == 16 && !grid_session_room(&a->s, 1),
	       "the window holds 4 MiB");
	make_sides(0);
	join_sides();
	n = 0;
	while (!grid_session_frame(&a->s, SKEP_PING, 0, 0, 0))
		n++;
	tap_ok(n * sizeof(struct skep_frame) >= SKEP_ACK_EVERY,
	       "small frames fit until an ACK of them is due");
	make_sides(0);
	join_sides();
	tap_ok(grid_session_frame(&a->s, SKEP_DATA, 0, 0, SKEP_FRAME_MAX + 1) ==
			       -EINVAL &&
		       !grid_session_frame(&a->s, SKEP_DATA, 0, 0,
					   SKEP_FRAME_MAX) &&
		       grid_session_out(&a->s, &piece, 1) == 1,
	       "a frame of one MiB may be sent");
	grid_session_cut(&a->s);
	tap_ok(!grid_session_out(&a->s, &piece, 1),
	       "a stream that was cut is not written to");
	make_sides(0);
	join_sides();
	tap_ok(!grid_session_frame(&a->s, SKEP_DATA, 0, 0, 8) &&
		       grid_session_put(&a->s, bulk, 9, 0) == -EINVAL &&
		       grid_session_frame(&a->s, SKEP_PING, 0, 0, 0) == -EINVAL,
	       "a frame's length must match its header");
}

int main(void)
{
	u32 i;

	a = calloc(1, sizeof(*a));
	b = calloc(1, sizeof(*b));
	for (i = 0; i < sizeof(bulk); i++)
		bulk[i] = (u8)random_below(256);
	test_talks();
	test_hellos();
	test_heads();
	test_releases();
	test_full();
	test_windows();
	free(a);
	free(b);
	return tap_done();
}
