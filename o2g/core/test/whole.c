/* SPDX-License-Identifier: MIT */
/*
 * Messages that lie whole before the core: received without an object of their
 * own, and otherwise like those that come in pieces.
 */
#include "pair.h"
#include "suite.h"

static struct pair p;
static u8 body[O2G_CREDIT_MIN], in[4096];
static check_fn *check;

#define TRUE(condition) check(!!(condition), #condition)

static void open_whole(void)
{
	struct bed_options options = pair_plain;

	options.whole = 1;
	pair_open(&p, &options, O2G_CREDIT_MIN);
}

/* What endpoint 1 says to these bytes of its peer. */
static int receive_bytes(const struct o2g_frame *frame, u32 length)
{
	struct bed_pipe *pipe = p.end[1].in;

	memcpy(pipe->byte + pipe->tail % BED_PIPE, frame, sizeof(*frame));
	pipe->tail += (u32)sizeof(*frame);
	memcpy(pipe->byte + pipe->tail % BED_PIPE, body, length);
	pipe->tail += length;
	return bed_read(&p.end[1], 1 << 20);
}

static struct o2g_frame message_frame(u32 id, u32 length)
{
	return (struct o2g_frame){.type = O2G_MESSAGE,
				  .flags = O2G_FRAME_DATA,
				  .body = length,
				  .id = id,
				  .context = 1,
				  .tag = 1,
				  .length = length,
				  .data = 77};
}

/* A completion has the same fields either way. */
static void test_received(u32 length)
{
	struct o2g_frame frame = message_frame(9, length);
	struct o2g_cqe cqe[2];

	for (int way = 0; way < 2; way++) {
		memset(in, 0, sizeof(in));
		if (way)
			open_whole();
		else
			pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
		bed_recv(&p.bed[1], O2G_ANY_PEER, 1, 0, in, sizeof(in), 5);
		TRUE(receive_bytes(&frame, length) > 0);
		TRUE(bed_take(&p.bed[1], &cqe[way]) == 1);
		TRUE(!memcmp(in, body, length) && !in[length]);
		TRUE(p.bed[1].whole == (u64)way);
		check(!way == !!p.bed[1].core->messages.made,
		      "a message that lies whole needs no object");
		TRUE(p.end[1].conn->owed == O2G_MESSAGE_COST + length);
		TRUE(p.bed[1].core->counts.received_bytes == length &&
		     p.bed[1].core->counts.expected == 1 &&
		     p.bed[1].core->counts.frames_in == 1);
		TRUE(pair_close(&p));
	}
	check(!memcmp(&cqe[0], &cqe[1], sizeof(cqe[0])),
	      "its completion is that of one that comes in pieces");
}

/* Left to the longer way, which says what it always said. */
static void test_left(void)
{
	struct o2g_frame frame = message_frame(1, 100);

	open_whole();
	TRUE(receive_bytes(&frame, 100) > 0);
	bed_recv(&p.bed[1], 0, 1, 0, in, 100, 5);
	TRUE(p.bed[1].whole == 0);
	check(pair_took(&p, 1, 5, 0), "a message without a receive is kept");
	bed_recv(&p.bed[1], 0, 1, 0, in, 99, 6);
	TRUE(receive_bytes(&frame, 100) > 0 && p.bed[1].whole == 0);
	check(pair_took(&p, 1, 6, -90), "one that is too long is cut");
	TRUE(pair_close(&p));
}

/* With a receive that would take it. */
static void expect_refused(const char *name, struct o2g_frame frame, u32 length)
{
	struct o2g_frame half = message_frame(1, 100);

	open_whole();
	bed_recv(&p.bed[1], 0, 2, 0, in, sizeof(in), 4);
	bed_recv(&p.bed[1], 0, 1, 0, in, sizeof(in), 5);
	half.tag = 2;
	half.body = 50;
	TRUE(receive_bytes(&half, 50) > 0);
	check(receive_bytes(&frame, length) == -71 &&
		      p.bed[1].core->counts.received == 0,
	      name);
	TRUE(pair_close(&p));
}

static void test_refused(void)
{
	struct o2g_frame frame = message_frame(2, 10);

	frame.zero = 1;
	expect_refused("a malformed message that lies whole is refused", frame,
		       10);
	frame = message_frame(1, 10);
	expect_refused("one with an id in flight is refused", frame, 10);
	frame = message_frame(2, 10);
	frame.credit = 1;
	expect_refused("one that returns credit which was not spent is refused",
		       frame, 10);
}

/* More than the credit, in a receive's room. */
static void test_credit(void)
{
	struct o2g_frame frame =
		message_frame(2, O2G_CREDIT_MIN - 2 * O2G_MESSAGE_COST + 1);
	struct o2g_frame first = message_frame(1, 0);
	static u8 large[O2G_CREDIT_MIN];

	open_whole();
	bed_recv(&p.bed[1], 0, 1, 0, large, sizeof(large), 4);
	bed_recv(&p.bed[1], 0, 1, 0, large, sizeof(large), 5);
	TRUE(receive_bytes(&first, 0) > 0 && p.bed[1].whole == 1);
	check(receive_bytes(&frame, frame.body) == -71,
	      "one that costs more than is left of the credit is refused");
	TRUE(pair_close(&p));
}

static void test_many(void)
{
	open_whole();
	for (u32 i = 0; i < 1000; i++) {
		bed_recv(&p.bed[1], 0, i, 0, in, sizeof(in), i);
		bed_send(&p.bed[0], 1, i, body, i, i);
		TRUE(pair_run(&p) == 0 && pair_took(&p, 0, i, 0) &&
		     pair_took(&p, 1, i, 0) && !memcmp(in, body, i));
	}
	check(p.bed[1].whole > 900 && p.bed[0].core->counts.waited == 0,
	      "credit of messages that lie whole is returned");
	TRUE(pair_close(&p));
}

void whole_run(check_fn *report)
{
	check = report;
	for (u32 i = 0; i < sizeof(body); i++)
		body[i] = (u8)(i * 7 + 1);
	test_received(0);
	test_received(8);
	test_received(4000);
	test_left();
	test_refused();
	test_credit();
	test_many();
}
