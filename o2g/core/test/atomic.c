/* SPDX-License-Identifier: MIT */
/* Atomic access: what it changes, its order, its ends. */
#include <o2g/core/atomic.h>

#include "pair.h"
#include "suite.h"

#define KEY 77
#define ELEMENTS 512u /* of 8 bytes: as many as there may be */
#define TRUE(condition) check(!!(condition), #condition)
#define DO(operation, type) (O2G_ATOMIC_##operation | O2G_ATOMIC_##type << 8)
#define FETCH(operation, type) (DO(operation, type) | O2G_ATOMIC_FETCH)

static struct pair p;
static u64 window[ELEMENTS + 2], operand[2 * ELEMENTS], result[ELEMENTS + 1];
static check_fn *check;

static int add_region(int who, u32 rights)
{
	const struct o2g_region_options options = {.key = KEY,
						   .address = (u64)&window[1],
						   .length = 8 * ELEMENTS,
						   .cookie = 99,
						   .rights = rights};

	return o2g_region_add(p.bed[who].core, &options);
}

#define BOTH (O2G_REGION_READ | O2G_REGION_WRITE)

static void open_rights(u32 rights)
{
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	for (u32 i = 0; i < ELEMENTS; i++) {
		window[i + 1] = 1000 + i;
		operand[i] = i;
		operand[ELEMENTS + i] = 0;
		result[i] = 0xdd;
	}
	window[0] = window[ELEMENTS + 1] = result[ELEMENTS] = 0xee;
	TRUE(add_region(1, rights) == 0);
}

static void submit_at(int who, u32 peer, u32 what, u64 place, u64 length,
		      u64 cookie)
{
	const struct o2g_sqe sqe = {.op = O2G_OP_ATOMIC,
				    .peer = peer,
				    .tag = KEY,
				    .ignore = place,
				    .addr = (u64)operand,
				    .length = length,
				    .data = (u64)result,
				    .context = what,
				    .cookie = cookie};

	bed_submit(&p.bed[who], &sqe);
}

static void submit_atomic(u32 what, u64 place, u64 length, u64 cookie)
{
	submit_at(0, 1, what, place, length, cookie);
}

static void close_quiet(void)
{
	TRUE(pair_none(&p, 0) && pair_none(&p, 1));
	TRUE(!p.bed[0].unfit && !p.bed[1].unfit);
	TRUE(p.bed[0].core->charged == 0 && p.bed[1].core->charged == 0);
	TRUE(window[0] == 0xee && window[ELEMENTS + 1] == 0xee &&
	     result[ELEMENTS] == 0xee);
	TRUE(pair_close(&p));
}

static int all_are(const u64 *element, u64 first, u64 step)
{
	u32 n = 0;

	while (n < ELEMENTS && element[n] == first + n * step)
		n++;
	return n == ELEMENTS;
}

/* The longest there is, at once or put off by the engine. */
static void test_kinds(int later)
{
	open_rights(BOTH);
	p.bed[1].put_off = later;
	submit_atomic(DO(SUM, U64), 0, 8 * ELEMENTS, 1);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, 0) && p.cqe.op == O2G_OP_ATOMIC &&
		      all_are(window + 1, 1000, 2) && all_are(result, 0xdd, 0),
	      "an atomic access changes each element");
	submit_atomic(FETCH(SUM, U64), 0, 8 * ELEMENTS, 2);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 2, 0) && p.cqe.length == 8 * ELEMENTS &&
		      all_are(window + 1, 1000, 3) && all_are(result, 1000, 2),
	      "it fetches the elements that were there before");
	for (u32 i = 0; i < ELEMENTS; i++)
		operand[ELEMENTS + i] = i % 2 ? 1000 + 3 * i : 5;
	submit_atomic(DO(CSWAP, U64), 0, 8 * ELEMENTS, 3);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 3, 0) && all_are(result, 1000, 3) &&
		      window[1] == 1000 && window[2] == 1 &&
		      window[3] == 1006 && window[ELEMENTS] == ELEMENTS - 1,
	      "it compares before it swaps");
	submit_atomic(DO(READ, U8), 8 * ELEMENTS - 8, 1, 4);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 4, 0) && (u8)result[0] == (u8)(ELEMENTS - 1) &&
		      result[0] >> 8 == 1000 >> 8,
	      "it reads without operands, and writes no byte more");
	TRUE(p.end[0].conn->spent_out == p.end[1].conn->spent_in);
	close_quiet();
}

static void test_own(int later)
{
	open_rights(0);
	TRUE(add_region(0, BOTH) == 0);
	p.bed[0].put_off = later;
	submit_at(0, 0, FETCH(SUM, U64), 0, 8 * ELEMENTS, 1);
	submit_at(0, 0, FETCH(SUM, U64), 0, 8 * ELEMENTS, 2);
	TRUE(!later || p.bed[0].laters == 1);
	bed_copies(&p.bed[0]);
	check(pair_took(&p, 0, 1, 0) && pair_took(&p, 0, 2, 0) &&
		      all_are(window + 1, 1000, 3) && all_are(result, 1000, 2),
	      "an endpoint changes memory of its own atomically");
	TRUE(p.bed[0].core->messages.used == 0);
	close_quiet();
}

/* An engine that puts accesses off gets one at a time, in order. */
static void test_order(void)
{
	static const u32 what[] = {FETCH(SUM, U64), FETCH(PROD, U64),
				   DO(WRITE, U64), DO(READ, U64)};
	u32 done = 0;

	open_rights(BOTH);
	p.bed[1].put_off = 1;
	operand[0] = 3;
	for (u32 i = 0; i < 4; i++)
		submit_atomic(what[i], 8, 8, i);
	bed_write(&p.end[0], 10000);
	TRUE(bed_read(&p.end[1], 10000) > 0);
	TRUE(p.bed[1].laters == 1 && p.bed[1].core->messages.used == 4);
	bed_copies(&p.bed[1]);
	TRUE(pair_run(&p) == 0);
	while (bed_take(&p.bed[0], &p.cqe)) /* in any order */
		done += !p.cqe.status;
	check(done == 4 && window[2] == 3 && result[0] == 3,
	      "atomic accesses are done in the order of their calls");
	close_quiet();
}

static void expect_refused(const char *name, u32 rights, u32 what, u64 place,
			   u64 length, int status)
{
	open_rights(rights);
	submit_atomic(what, place, length, 3);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 3, status) && all_are(window + 1, 1000, 1) &&
		      all_are(result, 0xdd, 0),
	      name);
	submit_atomic(DO(SUM, U64), 0, 8, 4);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 4,
		       rights & O2G_REGION_WRITE ? 0 : -LINUX_EACCES));
	close_quiet();
}

static void test_refusals(void)
{
	expect_refused("an atomic change of a read-only region is refused",
		       O2G_REGION_READ, DO(SUM, U64), 0, 8, -LINUX_EACCES);
	expect_refused("an atomic change that fetches needs both rights",
		       O2G_REGION_WRITE, FETCH(SUM, U64), 0, 8, -LINUX_EACCES);
	expect_refused("a swap needs the right to read", O2G_REGION_WRITE,
		       DO(CSWAP, U64), 0, 8, -LINUX_EACCES);
	expect_refused("an atomic read needs the right to read",
		       O2G_REGION_WRITE, DO(READ, U64), 0, 8, -LINUX_EACCES);
	expect_refused("an atomic access beyond the end is refused", BOTH,
		       DO(SUM, U64), 8 * ELEMENTS - 8, 16, -LINUX_ERANGE);
	expect_refused("elements that are not aligned are refused", BOTH,
		       DO(SUM, U32), 2, 4, -LINUX_EINVAL);
	expect_refused("an operation that its type does not have is refused",
		       BOTH, DO(BOR, F32), 0, 8, -LINUX_EINVAL);
	expect_refused("elements beyond the limit are refused", BOTH,
		       DO(SUM, U8), 0, O2G_ATOMIC_BYTES + 1, -LINUX_EINVAL);
	expect_refused("half an element is refused", BOTH, DO(SUM, U64), 0, 12,
		       -LINUX_EINVAL);
	open_rights(BOTH);
	bed_submit(&p.bed[0], &(struct o2g_sqe){.op = O2G_OP_ATOMIC,
						.peer = 1,
						.tag = KEY,
						.addr = (u64)operand,
						.length = 8,
						.data = ~0ull - 3,
						.context = FETCH(SUM, U64),
						.cookie = 1});
	check(pair_took(&p, 0, 1, -LINUX_EINVAL),
	      "a result at an address that wraps is refused");
	close_quiet();
}

/* More than there is credit for, behind messages that nobody receives: credit
 * is returned early for what they took. */
static void test_credit(void)
{
	struct bed_options options = pair_plain;
	u32 done = 0;

	options.write_off = options.unexpected;
	pair_open(&p, &options, O2G_CREDIT_MIN);
	TRUE(add_region(1, BOTH) == 0);
	for (u32 i = 0; i < 64; i++)
		bed_send(&p.bed[0], 1, i, operand, 100, 7);
	for (u32 i = 0; i < 20; i++) {
		bed_send(&p.bed[0], 1, 64 + i, operand, 100, 7);
		submit_atomic(DO(CSWAP, U64), 0, 8 * ELEMENTS, 8);
	}
	TRUE(pair_run(&p) == 0);
	while (bed_take(&p.bed[0], &p.cqe))
		done += p.cqe.cookie == 8 && !p.cqe.status;
	check(done == 20, "an atomic access gets credit in any case");
	TRUE(pair_close(&p));
}

static void move_bytes(int who, u64 most)
{
	bed_write(&p.end[who], most);
	TRUE(bed_read(&p.end[!who], most) >= 0);
}

/* Its reply has not been planned, or not been written. */
static void removed_after(int planned)
{
	open_rights(BOTH);
	operand[0] = 1;
	submit_atomic(FETCH(SUM, U64), 0, 8 * ELEMENTS, 1);
	move_bytes(0, 10000);
	if (planned)
		bed_write(&p.end[1], 100);
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, 0) && window[1] == 1001 &&
		      all_are(result, 1000, 1),
	      "the result of an atomic access outlives the region");
	close_quiet();
}

/* Removed when the engine has it, when it waits for another one, when its
 * answer waits, and when half of its operands are here. */
static void test_removal(void)
{
	open_rights(BOTH);
	p.bed[1].put_off = 1;
	submit_atomic(FETCH(SUM, U64), 0, 8, 1);
	submit_atomic(FETCH(SUM, U64), 0, 8, 2);
	move_bytes(0, 10000);
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	bed_copies(&p.bed[1]);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, -LINUX_EKEYREJECTED) &&
		      pair_took(&p, 0, 2, -LINUX_EKEYREJECTED) &&
		      window[1] == 1000,
	      "an atomic access that waits is not done to a removed region");
	close_quiet();
	removed_after(0);
	removed_after(1);
	open_rights(BOTH);
	operand[0] = 1;
	submit_atomic(FETCH(SUM, U64), 0, 8 * ELEMENTS, 1);
	move_bytes(0, 2000);
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, -LINUX_EKEYREJECTED) && window[1] == 1000,
	      "operands for a removed region are read and discarded");
	close_quiet();
}

/* The connection ends at each byte of one, and while the engine has it. */
static void test_death(void)
{
	u32 wrong = 0;

	for (u64 out = 0; out < 330; out++) {
		open_rights(BOTH);
		p.bed[1].put_off = out % 2;
		submit_atomic(FETCH(SUM, U64), 0, 64, 1);
		submit_atomic(DO(CSWAP, U64), 0, 64, 2);
		move_bytes(0, out);
		move_bytes(1, out / 2);
		bed_end(&p.end[0], -104);
		bed_end(&p.end[1], -104);
		bed_copies(&p.bed[1]);
		wrong +=
			!pair_took(&p, 0, 1, -LINUX_ECONNRESET) && p.cqe.status;
		wrong += !pair_took(&p, 0, 2, -LINUX_ECONNRESET);
		wrong += p.bed[1].core->charged != 0 ||
			 p.bed[1].core->messages.used != 0;
		wrong += !pair_none(&p, 0);
		TRUE(pair_close(&p));
	}
	check(!wrong, "an atomic access whose peer dies fails exactly once");
}

static void test_events(void)
{
	open_rights(BOTH | O2G_REGION_EVENTS);
	submit_atomic(DO(SUM, U64), 8, 16, 1);
	submit_atomic(FETCH(SUM, U64), 8, 8, 2);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, 0) && pair_took(&p, 0, 2, 0));
	TRUE(pair_took(&p, 1, 99, 0) && p.cqe.op == O2G_OP_WRITTEN &&
	     p.cqe.length == 16 && p.cqe.where == (u64)&window[2]);
	check(pair_took(&p, 1, 99, 0) && p.cqe.op == O2G_OP_READ_OUT &&
		      p.cqe.length == 8,
	      "a region can report each atomic access");
	close_quiet();
}

/* ---- who does not keep to it ---- */

static int receive_frame(struct o2g_frame frame, u32 length)
{
	struct bed_pipe *pipe = p.end[1].in;

	for (u32 i = 0; i < sizeof(frame); i++)
		pipe->byte[pipe->tail++ % BED_PIPE] = ((u8 *)&frame)[i];
	for (u32 i = 0; i < length; i++)
		pipe->byte[pipe->tail++ % BED_PIPE] = 0x77;
	return bed_read(&p.end[1], 1 << 20);
}

static void cut_off(const char *name, struct o2g_frame frame, u32 length)
{
	open_rights(BOTH);
	check(receive_frame(frame, length) == -LINUX_EPROTO &&
		      all_are(window + 1, 1000, 1),
	      name);
	TRUE(pair_close(&p));
}

static void test_forgeries(void)
{
	const struct o2g_frame good = {.type = O2G_ATOMIC,
				       .id = 1,
				       .tag = KEY,
				       .context = DO(SUM, U64),
				       .length = 8,
				       .body = 8};
	struct o2g_frame frame = good;

	frame.id = 0;
	cut_off("an atomic access without an id is refused", frame, 8);
	frame = good;
	frame.flags = O2G_FRAME_DATA;
	cut_off("an atomic access with immediate data is refused", frame, 8);
	frame = good;
	frame.body = 16;
	cut_off("more operands than elements are refused", frame, 16);
	frame.body = 4;
	cut_off("fewer operands than elements are refused", frame, 4);
	frame = good;
	frame.context = DO(CSWAP, U64);
	cut_off("a swap without values to compare is refused", frame, 8);
	frame = good;
	frame.context = DO(READ, U64);
	cut_off("an atomic read with operands is refused", frame, 8);
	frame = good;
	frame.context |= 0x1000000;
	cut_off("an unknown flag of an atomic access is refused", frame, 8);
	frame = good;
	frame.high = 1;
	cut_off("a write's field in an atomic access is refused", frame, 8);
	frame = good;
	frame.context = DO(BAND, F64);
	cut_off("an operation that its type does not have ends the connection",
		frame, 8);
	open_rights(BOTH);
	frame = good;
	frame.context = FETCH(SUM, U64);
	frame.length = frame.body = O2G_ATOMIC_BYTES;
	for (frame.id = 1; receive_frame(frame, frame.body) > 0; frame.id++)
		;
	check(frame.id ==
		      O2G_CREDIT_MIN / (O2G_MESSAGE_COST + O2G_ATOMIC_BYTES) +
			      1,
	      "a peer has no more operands in memory than its credit");
	TRUE(pair_close(&p));
}

static void submit_answered(u32 what, u64 out)
{
	open_rights(BOTH);
	submit_at(1, 0, what, 0, 16, 8);
	if (out)
		bed_write(&p.end[1], out);
}

/* Endpoint 1 asks, and its peer answers wrongly. */
static void wrong_answers(void)
{
	struct o2g_frame reply = {.type = O2G_REPLY, .id = 1, .body = 16};
	struct o2g_frame done = {.type = O2G_DONE, .id = 1};

	submit_answered(DO(SUM, U64), 1000);
	check(receive_frame(reply, 16) == -LINUX_EPROTO,
	      "a reply to an access that fetches nothing is refused");
	TRUE(pair_close(&p));
	submit_answered(FETCH(SUM, U64), 1000);
	check(receive_frame(done, 0) == -LINUX_EPROTO,
	      "an answer without the elements that were fetched is refused");
	TRUE(pair_close(&p));
	submit_answered(FETCH(SUM, U64), 1000);
	reply.body = 17;
	check(receive_frame(reply, 17) == -LINUX_EPROTO &&
		      all_are(result, 0xdd, 0),
	      "a reply longer than the elements is refused");
	TRUE(pair_close(&p));
	submit_answered(FETCH(SUM, U64), 0);
	reply.body = 16;
	check(receive_frame(reply, 16) == -LINUX_EPROTO,
	      "a reply to an access that was not sent is refused");
	TRUE(pair_close(&p));
	submit_answered(FETCH(SUM, U64), 1000);
	TRUE(receive_frame(reply, 16) > 0 && receive_frame(done, 0) > 0);
	check(pair_took(&p, 1, 8, 0) && result[1] == 0x7777777777777777ull &&
		      result[2] == 0xdd,
	      "a right answer is taken");
	TRUE(pair_close(&p));
}

void atomic_run(check_fn *judge)
{
	check = judge;
	test_kinds(0);
	test_kinds(1);
	test_own(0);
	test_own(1);
	test_order();
	test_refusals();
	test_credit();
	test_removal();
	test_death();
	test_events();
	test_forgeries();
	wrong_answers();
}
