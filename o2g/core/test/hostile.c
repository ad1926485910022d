/* SPDX-License-Identifier: MIT */
/* What a hostile peer or program may try, and what it may not get. */
#include <stdio.h>

#include "pair.h"
#include "suite.h"

static u8 body[1 << 20];
static struct pair p;
static check_fn *check;

#define CHECK(condition) check(!!(condition), #condition)

static void push_bytes(const void *bytes, u32 length)
{
	struct bed_pipe *pipe = p.end[1].in;

	for (u32 i = 0; i < length; i++)
		pipe->byte[pipe->tail++ % BED_PIPE] = ((const u8 *)bytes)[i];
}

/* What endpoint 1 says to this frame of its peer, with `length` body bytes. */
static int receive_frame(struct o2g_frame frame, u32 length)
{
	push_bytes(&frame, sizeof(frame));
	push_bytes(body, length);
	return bed_read(&p.end[1], 1 << 20);
}

static void open_plain(void)
{
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
}

static struct o2g_frame message_frame(u32 id, u64 length, u32 first)
{
	return (struct o2g_frame){.type = O2G_MESSAGE,
				  .body = first,
				  .id = id,
				  .context = 1,
				  .tag = 1,
				  .length = length};
}

/* Each in a fresh connection: refused, and nothing is left of it. */
static void expect_refused(const char *name, struct o2g_frame frame, u32 length)
{
	int rc;

	open_plain();
	rc = receive_frame(frame, length);
	check(rc == -71, name);
	CHECK(pair_close(&p));
}

static void test_malformed(void)
{
	struct o2g_frame frame = message_frame(1, 10, 10);

	frame.zero = 1;
	expect_refused("a frame with a reserved field is refused", frame, 10);
	frame = message_frame(1, 10, 11);
	expect_refused("a first piece longer than its message is refused",
		       frame, 11);
	frame = message_frame(0, 10, 10);
	expect_refused("id 0 is refused", frame, 10);
	frame = message_frame(1, 10, 10);
	frame.data = 1;
	expect_refused("immediate data without its flag are refused", frame,
		       10);
	frame = message_frame(1, O2G_LENGTH_MAX + 1, 0);
	frame.type = O2G_REQUEST;
	expect_refused("a length above O2G_LENGTH_MAX is refused", frame, 0);
	expect_refused("an unknown type is refused",
		       (struct o2g_frame){.type = O2G_FRAME_TYPES}, 0);
	expect_refused("type 0 is refused", (struct o2g_frame){.type = 0}, 0);
	expect_refused("a body above its bound is refused",
		       message_frame(1, O2G_BODY_MAX + 1, O2G_BODY_MAX + 1), 0);
}

static void out_of_state(void)
{
	struct o2g_frame frame = {.type = O2G_PIECE, .id = 4, .body = 1};

	expect_refused("a piece of no message is refused", frame, 1);
	frame = (struct o2g_frame){.type = O2G_GRANT, .id = 1, .length = 5};
	expect_refused("a grant for no request is refused", frame, 0);
	frame = (struct o2g_frame){.type = O2G_CREDIT, .credit = 1};
	expect_refused("credit that was not spent is refused", frame, 0);
	expect_refused(
		"more than the credit is refused",
		message_frame(1, O2G_CREDIT_MIN - O2G_MESSAGE_COST + 1, 10),
		10);
	frame = message_frame(1, 1ull << 32, 0);
	expect_refused("a length that wraps its cost is refused", frame, 0);
}

static void test_sequences(void)
{
	struct o2g_frame piece = {.type = O2G_PIECE, .id = 1, .body = 60};
	struct o2g_frame bye = {.type = O2G_BYE};
	struct o2g_frame request = message_frame(2, 100, 0);
	struct o2g_piece place;

	open_plain();
	CHECK(receive_frame(message_frame(1, 100, 50), 50) > 0);
	check(receive_frame(message_frame(1, 100, 50), 50) == -71,
	      "an id in flight is refused for a second message");
	CHECK(pair_close(&p));
	open_plain();
	CHECK(receive_frame(message_frame(1, 100, 50), 50) > 0);
	check(receive_frame(piece, 60) == -71,
	      "more pieces than length are refused");
	CHECK(pair_close(&p));
	open_plain();
	CHECK(receive_frame(message_frame(1, 100, 50), 50) > 0);
	check(receive_frame(bye, 0) == -71, "BYE within a message is refused");
	CHECK(pair_close(&p));
	open_plain();
	request.type = O2G_REQUEST;
	piece.id = 2;
	CHECK(receive_frame(request, 0) > 0);
	check(receive_frame(piece, 60) == -71,
	      "pieces without a grant are refused");
	CHECK(pair_close(&p));
	open_plain();
	CHECK(receive_frame(bye, 0) > 0);
	check(o2g_rx_want(p.end[1].conn, &place) == -32,
	      "nothing is read after BYE");
	CHECK(pair_close(&p));
}

/* A peer that spends all its credit, and one of many that would fill us. */
static void test_flood(void)
{
	struct bed_options options = pair_plain;
	u64 held;
	u32 id = 0;

	open_plain();
	while (receive_frame(message_frame(++id, 0, 0), 0) > 0)
		;
	check(id == O2G_CREDIT_MIN / O2G_MESSAGE_COST + 1,
	      "a peer uses no more than its credit");
	CHECK(p.bed[1].core->charged ==
	      O2G_CREDIT_MIN / O2G_MESSAGE_COST * sizeof(struct o2g_message));
	CHECK(pair_close(&p));

	options.unexpected = 10000;
	pair_open(&p, &options, 1 << 20);
	id = 0;
	do {
		held = p.bed[1].core->charged;
		receive_frame(message_frame(++id, 1000, 1000), 1000);
	} while (p.bed[1].core->charged != held);
	check(held <= 10000 && o2g_rx_blocked(p.end[1].conn),
	      "above the limit a connection is not read");
	CHECK(p.bed[1].area->sq.flags == (O2G_NEED_KICK | O2G_NEED_BODIES));
	bed_recv(&p.bed[1], 0, 1, 0, body, 1000, 11);
	check(!o2g_rx_blocked(p.end[1].conn),
	      "a connection is read again when a receive frees memory");
	CHECK(bed_read(&p.end[1], 1 << 20) > 0 && pair_took(&p, 1, 11, 0));
	CHECK(pair_close(&p));
}

/* A large body that nobody can hold goes to its receive when there is one. */
static void test_unbuffered(void)
{
	struct bed_options options = pair_plain;

	options.unexpected = 1000;
	pair_open(&p, &options, 1 << 20);
	CHECK(receive_frame(message_frame(1, 50000, 50000), 50000) ==
	      O2G_FRAME_SIZE);
	CHECK(o2g_rx_blocked(p.end[1].conn));
	CHECK(p.bed[1].core->counts.unmatched == 1);
	bed_recv(&p.bed[1], 0, 1, 0, body, 50000, 11);
	CHECK(bed_read(&p.end[1], 1 << 20) == 50000);
	check(pair_took(&p, 1, 11, 0),
	      "a message that cannot be buffered waits in its stream");
	CHECK(pair_close(&p));
	pair_open(&p, &options, 1 << 20);
	CHECK(receive_frame(message_frame(1, 50000, 50000), 50000) ==
	      O2G_FRAME_SIZE);
	CHECK(p.bed[1].area->sq.flags == (O2G_NEED_KICK | O2G_NEED_BODIES));
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	bed_recv(&p.bed[1], 1, 3, 0, body, 1, 12);
	check(!(p.bed[1].area->sq.flags & O2G_NEED_BODIES),
	      "with its connection the wait for room ends");
	CHECK(pair_close(&p));
}

static void submit_bad(struct o2g_sqe sqe, int status, const char *name)
{
	sqe.cookie = 66;
	bed_submit(&p.bed[0], &sqe);
	check(pair_took(&p, 0, 66, status), name);
}

static void test_program(void)
{
	const u64 outbox = p.bed[0].area->outbox;
	const struct o2g_sqe send = {.op = O2G_OP_SEND, .peer = 1};
	const struct o2g_sqe recv = {.op = O2G_OP_RECV, .peer = 1};
	struct o2g_sqe sqe = {.op = 0};

	submit_bad(sqe, -22, "op 0 is refused");
	sqe.op = 200;
	submit_bad(sqe, -22, "an unknown op is refused");
	sqe = send;
	sqe.addr = ~0ull - 5;
	sqe.length = 100;
	submit_bad(sqe, -22, "a send that wraps is refused");
	sqe = recv;
	sqe.addr = ~0ull - 5;
	sqe.length = 100;
	submit_bad(sqe, -22, "a receive that wraps is refused");
	sqe = send;
	sqe.length = O2G_LENGTH_MAX + 1;
	submit_bad(sqe, -22, "too long a send is refused");
	sqe = send;
	sqe.flags = O2G_SQE_AREA;
	sqe.addr = outbox - 1;
	sqe.length = 8;
	submit_bad(sqe, -22, "a send below the outbox is refused");
	sqe.addr = outbox + p.bed[0].area->outbox_size - 7;
	submit_bad(sqe, -22, "a send behind the outbox's end is refused");
	sqe = send;
	sqe.flags = O2G_SQE_MULTI;
	submit_bad(sqe, -22, "a flag of another op is refused");
	sqe = recv;
	sqe.zero2 = 1;
	submit_bad(sqe, -22, "a reserved field is refused");
	sqe = recv;
	sqe.peer = 5;
	submit_bad(sqe, -113, "a peer that was never added is refused");
	sqe = recv;
	sqe.flags = O2G_SQE_CLAIMED;
	sqe.data = ~0ull;
	submit_bad(sqe, -2, "an invented handle is refused");
	sqe = (struct o2g_sqe){.op = O2G_OP_RELEASE,
			       .data = p.bed[0].area->slab};
	submit_bad(sqe, -2, "a slab body that was not lent is refused");
	sqe.data = ~0ull;
	submit_bad(sqe, -2, "an address outside the slab is refused");
}

/* Is it refused as invalid? In a pair of its own. */
static int is_invalid(struct o2g_sqe sqe)
{
	struct o2g_cqe cqe;
	int invalid;

	pair_open(&p, &pair_slab, O2G_CREDIT_MIN);
	if (sqe.flags & O2G_SQE_AREA)
		sqe.addr += p.bed[0].area->outbox;
	bed_submit(&p.bed[0], &sqe);
	invalid = bed_take(&p.bed[0], &cqe) && cqe.status == -22;
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	CHECK(pair_close(&p));
	return invalid;
}

/* An operation with one flag or reserved field, or with two flags that exclude
 * each other. */
static void test_flags(void)
{
	static const struct {
		const char *name;
		struct o2g_sqe sqe;
		u8 flags, never; /* allowed; allowed but not together */
	} ops[] = {
		{"a send",
		 {.op = O2G_OP_SEND, .length = 8},
		 O2G_SQE_DATA | O2G_SQE_AREA | O2G_SQE_QUIET,
		 0},
		{"a write",
		 {.op = O2G_OP_WRITE, .length = 8},
		 O2G_SQE_DATA | O2G_SQE_AREA | O2G_SQE_QUIET,
		 0},
		{"a read", {.op = O2G_OP_READ, .length = 8}, O2G_SQE_QUIET, 0},
		{"an atomic access",
		 {.op = O2G_OP_ATOMIC,
		  .length = 8,
		  .context = O2G_ATOMIC_SUM | O2G_ATOMIC_U64 << 8},
		 O2G_SQE_AREA | O2G_SQE_QUIET,
		 0},
		{"a receive",
		 {.op = O2G_OP_RECV, .length = 8},
		 O2G_SQE_MULTI | O2G_SQE_CLAIMED,
		 O2G_SQE_MULTI | O2G_SQE_CLAIMED},
		{"a peek",
		 {.op = O2G_OP_PEEK},
		 O2G_SQE_CLAIM | O2G_SQE_DISCARD,
		 O2G_SQE_CLAIM | O2G_SQE_DISCARD},
	};
	char name[80];

	for (u32 i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct o2g_sqe sqe = ops[i].sqe;
		u32 refused = 0;

		sqe.peer = 1;
		for (u32 flag = 1; flag < 256; flag *= 2) {
			sqe.flags = (u8)flag;
			refused |= is_invalid(sqe) ? flag : 0;
		}
		sqe.flags = 0;
		snprintf(name, sizeof(name), "%s has its own flags only",
			 ops[i].name);
		check(!is_invalid(sqe) && refused == (u8)~ops[i].flags, name);
		sqe.flags = ops[i].never;
		CHECK(!ops[i].never || is_invalid(sqe));
		sqe.flags = 0;
		sqe.zero = 1;
		CHECK(is_invalid(sqe));
		sqe.zero = 0;
		sqe.zero2 = 1;
		CHECK(is_invalid(sqe));
	}
}

/* The last address and length that are accepted, and the first that are not. */
static void test_extents(void)
{
	static const u8 ops[] = {O2G_OP_SEND, O2G_OP_WRITE, O2G_OP_READ,
				 O2G_OP_RECV};
	const u64 size = 0x1000;
	struct o2g_sqe sqe = {.peer = 1};

	for (u32 i = 0; i < sizeof(ops); i++) {
		sqe.op = ops[i];
		sqe.length = O2G_LENGTH_MAX;
		sqe.addr = ~0ull - O2G_LENGTH_MAX;
		CHECK(!is_invalid(sqe));
		sqe.addr++;
		check(is_invalid(sqe), "memory that wraps is refused");
		sqe.addr = 0;
		sqe.length++;
		check(is_invalid(sqe), "a length above its limit is refused");
	}
	sqe.flags = O2G_SQE_AREA;
	for (u32 i = 0; i < 2; i++) {
		sqe.op = ops[i];
		sqe.addr = 0;
		sqe.length = pair_slab.outbox;
		CHECK(!is_invalid(sqe));
		sqe.length++;
		check(is_invalid(sqe), "more than the outbox is refused");
		sqe.addr = pair_slab.outbox - size;
		sqe.length = size;
		CHECK(!is_invalid(sqe));
		sqe.addr++;
		check(is_invalid(sqe), "the end of the outbox holds");
		sqe.addr = ~0ull;
		check(is_invalid(sqe), "the start of the outbox holds");
	}
}

static void test_postings(void)
{
	struct bed_options options = pair_plain;
	int refused_ones = 0;

	options.postings = 32;
	pair_open(&p, &options, O2G_CREDIT_MIN);
	for (u64 i = 0; i < 40; i++)
		bed_recv(&p.bed[0], 1, i, 0, body, 10, i);
	for (u64 i = 32; i < 40; i++)
		refused_ones += pair_took(&p, 0, i, -12);
	check(refused_ones == 8 && p.bed[0].core->counts.posted == 32,
	      "posted receives above the limit are refused");
	CHECK(pair_close(&p));
	options.postings = 4096;
	pair_open(&p, &options, O2G_CREDIT_MIN);
	for (u64 i = 0; i < 1100; i++)
		bed_recv(&p.bed[0], 1, 1, i, body, 10, i);
	check(pair_took(&p, 0, O2G_CLASSES + O2G_ODD_MAX, -12),
	      "receives with odd masks have a limit");
	CHECK(p.bed[0].core->counts.posted == O2G_CLASSES + O2G_ODD_MAX);
	CHECK(pair_close(&p));
}

/* More refusals than fit in the completions and operations there are. */
static void test_stall(void)
{
	struct bed_options options = pair_plain;
	const struct o2g_sqe bad = {.op = 99, .cookie = 5};
	u32 submitted = 0, got = 0;

	options.cq = 16;
	options.postings = 4;
	pair_open(&p, &options, O2G_CREDIT_MIN);
	while (o2g_ring_submit(p.bed[0].area, &bad)) {
		o2g_core_consume(p.bed[0].core);
		submitted++;
	}
	CHECK(submitted == 16 + 4 + pair_plain.sq);
	while (pair_took(&p, 0, 5, -22))
		got++;
	check(got == submitted,
	      "submissions wait while no completion can be written");
	CHECK(pair_close(&p));
}

static void broken_ring(void)
{
	struct o2g_area *area;

	open_plain();
	area = p.bed[0].area;
	area->sq.tail = area->sq_entries + 1;
	check(o2g_core_consume(p.bed[0].core) == -71,
	      "an impossible tail is refused with EPROTO");
	area->sq.tail = 0;
	CHECK(o2g_core_consume(p.bed[0].core) == -71);
	CHECK(pair_close(&p));
	open_plain();
	area = p.bed[0].area;
	for (u64 i = 0; i < 65; i++) {
		area->cq.head = 1000; /* beyond the tail */
		bed_recv(&p.bed[0], 9, 0, 0, body, 1, i);
	}
	check(area->cq.tail == 64, "an impossible head counts as a full ring");
	area->magic = 0;
	area->sqe = ~0ull;
	area->sq_entries = 1u << 31;
	area->cq.head = 64;
	CHECK(o2g_core_consume(p.bed[0].core) == 0 && area->cq.tail == 65);
	area->sqe = sizeof(*area);
	CHECK(pair_close(&p));
}

/* Every allocation fails once; nothing is lost but what was refused. */
static void no_memory(void)
{
	u32 refusals = 0, received = 0, bad = 0;

	for (u64 n = 1; n < 40; n++) {
		struct o2g_cqe cqe;

		pair_open(&p, &pair_plain, 1 << 16);
		p.bed[0].fail_after = n;
		p.bed[1].fail_after = n;
		for (u64 i = 0; i < 40; i++)
			bed_send(&p.bed[0], 1, i, body, 1000 * (i % 3), i);
		bad += pair_run(&p) < 0;
		p.bed[0].fail_after = 0;
		p.bed[1].fail_after = 0;
		for (u64 i = 0; i < 40; i++)
			bed_recv(&p.bed[1], 0, i, 0, body, 3000, i);
		bad += pair_run(&p) < 0;
		while (bed_take(&p.bed[0], &cqe))
			refusals += cqe.status == -12;
		while (bed_take(&p.bed[1], &cqe))
			received += cqe.status == 0;
		bad += p.bed[1].core->counts.unmatched != 0;
		bad += !pair_close(&p);
	}
	check(!bad && received + refusals == 39 * 40,
	      "without memory sends are refused and streams wait");
}

static int failing_copy(void *ctx, struct o2g_copy *job)
{
	(void)ctx;
	(void)job;
	return -14;
}

static void bad_buffer(void)
{
	open_plain();
	p.bed[1].core->host.copy = failing_copy;
	bed_send(&p.bed[0], 1, 1, body, 5000, 1);
	bed_send(&p.bed[0], 1, 2, body, 0, 2);
	CHECK(pair_run(&p) == 0);
	bed_recv(&p.bed[1], 0, 1, 0, body, 5000, 11);
	check(pair_took(&p, 1, 11, -14), "a buffer that can't be written fails "
					 "its receive");
	bed_send(&p.bed[1], 1, 1, body, 10, 21);
	check(pair_took(&p, 1, 21, -14), "a buffer that can't be read fails "
					 "its send");
	bed_recv(&p.bed[1], 0, 2, 0, body, 10, 12);
	CHECK(pair_took(&p, 1, 12, 0));
	CHECK(p.bed[1].core->messages.used == 0);
	CHECK(pair_close(&p));
}

void hostile_run(check_fn *report)
{
	check = report;
	test_malformed();
	out_of_state();
	test_sequences();
	test_flood();
	test_unbuffered();
	pair_open(&p, &pair_slab, O2G_CREDIT_MIN);
	test_program();
	CHECK(pair_close(&p));
	test_flags();
	test_extents();
	test_postings();
	test_stall();
	broken_ring();
	no_memory();
	bad_buffer();
}
