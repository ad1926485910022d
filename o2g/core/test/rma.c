/* SPDX-License-Identifier: MIT */
/* Remote memory access: what a peer may do to a region, and no more. */
#include <stdio.h>

#include "pair.h"
#include "suite.h"

#define KEY 77
#define SIZE 400000u
#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static u8 window[SIZE + 64], mine[SIZE + 64];
static check_fn *check;

static void submit_access(int who, u8 op, u64 key, u64 place, void *at,
			  u64 length, u64 cookie)
{
	const struct o2g_sqe sqe = {.op = op,
				    .peer = !who,
				    .tag = key,
				    .ignore = place,
				    .addr = (u64)at,
				    .length = length,
				    .cookie = cookie};

	bed_submit(&p.bed[who], &sqe);
}

static void write_to(u64 place, u64 length, u64 cookie)
{
	submit_access(0, O2G_OP_WRITE, KEY, place, mine, length, cookie);
}

static void read_from(u64 place, u64 length, u64 cookie)
{
	submit_access(0, O2G_OP_READ, KEY, place, mine, length, cookie);
}

static void fill_buffer(u8 *at, u8 first)
{
	for (u32 i = 0; i < SIZE; i++)
		at[i] = (u8)(first + i * 7 + i / 251);
}

static int add_region(u32 rights, u64 first)
{
	const struct o2g_region_options options = {.key = KEY,
						   .address = (u64)window,
						   .length = SIZE,
						   .first = first,
						   .cookie = 99,
						   .rights = rights};

	return o2g_region_add(p.bed[1].core, &options);
}

static void open_with(u32 rights)
{
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	memset(window, 0xee, sizeof(window));
	memset(mine, 0xdd, sizeof(mine));
	TRUE(add_region(rights, 0) == 0);
}

#define BOTH (O2G_REGION_READ | O2G_REGION_WRITE)

static void test_write_length(u64 length)
{
	char name[80];

	open_with(BOTH);
	fill_buffer(mine, 5);
	write_to(10, length, 1);
	TRUE(pair_none(&p, 0) || !length);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, 0) && p.cqe.length == length);
	TRUE(pair_none(&p, 0) && pair_none(&p, 1));
	snprintf(name, sizeof(name),
		 "a write of %llu bytes changes these bytes and no other",
		 length);
	check(!memcmp(window + 10, mine, length) && window[9] == 0xee &&
		      window[10 + length] == 0xee,
	      name);
	memset(mine, 0xdd, sizeof(mine));
	read_from(10, length, 2);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 2, 0) && p.cqe.length == length);
	snprintf(name, sizeof(name), "a read of %llu bytes gets them", length);
	check(!memcmp(window + 10, mine, length) && mine[length] == 0xdd, name);
	TRUE(p.bed[1].core->charged == 0);
	TRUE(p.end[0].conn->spent_out == p.end[1].conn->spent_in);
	TRUE(pair_close(&p));
}

/* The status of one access, whose target is left as it was. */
static void expect_refused(const char *name, u32 rights, u8 op, u64 key,
			   u64 place, u64 length, int status)
{
	int same = 1;

	open_with(rights);
	submit_access(0, op, key, place, mine, length, 3);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 3, status));
	for (u32 i = 0; i < sizeof(window); i++)
		same &= window[i] == 0xee && mine[i] == 0xdd;
	check(same && pair_none(&p, 1), name);
	write_to(0, SIZE * !!(rights & O2G_REGION_WRITE), 4);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 4,
			rights & O2G_REGION_WRITE ? 0 : -LINUX_EACCES),
	      "the connection survives a refused access");
	TRUE(p.bed[1].core->charged == 0);
	TRUE(pair_close(&p));
}

/* More accesses than there is credit for at a time. */
static void test_credit(void)
{
	int done = 0;

	open_with(BOTH);
	for (u32 i = 0; i < 3 * O2G_CREDIT_MIN / O2G_MESSAGE_COST; i++) {
		if (i % 2)
			write_to(0, 10, 1);
		else
			read_from(0, 10, 1);
		TRUE(pair_run(&p) == 0);
		done += pair_took(&p, 0, 1, 0);
	}
	check(done == 3 * O2G_CREDIT_MIN / O2G_MESSAGE_COST,
	      "the credit of an access is returned");
	TRUE(pair_close(&p));
}

static void test_refusals(void)
{
	const u8 w = O2G_OP_WRITE, r = O2G_OP_READ;

	expect_refused("a write with an unknown key is refused", BOTH, w,
		       KEY + 1, 0, 9, -LINUX_EKEYREJECTED);
	expect_refused("a read with an unknown key is refused", BOTH, r,
		       KEY + 1, 0, 9, -LINUX_EKEYREJECTED);
	expect_refused("a read-only region refuses a write", O2G_REGION_READ, w,
		       KEY, 0, 9, -LINUX_EACCES);
	expect_refused("a write-only region refuses a read", O2G_REGION_WRITE,
		       r, KEY, 0, 9, -LINUX_EACCES);
	expect_refused("a write beyond the end writes nothing", BOTH, w, KEY,
		       SIZE - 8, 9, -LINUX_ERANGE);
	expect_refused("a read beyond the end reads nothing", BOTH, r, KEY,
		       SIZE - 8, 9, -LINUX_ERANGE);
	expect_refused("a write that begins beyond the end is refused", BOTH, w,
		       KEY, SIZE + 1, 0, -LINUX_ERANGE);
	expect_refused("an offset that wraps is refused", BOTH, w, KEY,
		       ~0ull - 3, 9, -LINUX_ERANGE);
	expect_refused("a long write with an unknown key is read and discarded",
		       BOTH, w, 1, 0, SIZE, -LINUX_EKEYREJECTED);
	expect_refused("a long write beyond the end is read and discarded",
		       BOTH, w, KEY, 1, SIZE, -LINUX_ERANGE);
}

static void test_names(void)
{
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	TRUE(add_region(BOTH, (u64)window) == 0);
	check(add_region(BOTH, 0) == -LINUX_EEXIST,
	      "a key in use is refused for a second region");
	memset(window, 0, SIZE);
	mine[0] = 42;
	write_to((u64)window + 5, 1, 1);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, 0) && window[5] == 42,
	      "a region can be addressed by virtual addresses");
	write_to((u64)window - 1, 1, 2);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 2, -LINUX_ERANGE),
	      "an address below the region is refused");
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == -LINUX_ENOENT);
	write_to((u64)window, 1, 3);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 3, -LINUX_EKEYREJECTED),
	      "a stale key is refused");
	TRUE(pair_close(&p));
	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	TRUE(o2g_region_add(p.bed[1].core,
			    &(struct o2g_region_options){.key = KEY,
							 .length = ~0ull,
							 .rights = BOTH}) == 0);
	write_to((u64)window + 7, 1, 4);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 4, 0) && window[7] == 42,
	      "a region may cover all memory");
	TRUE(o2g_region_add(p.bed[1].core,
			    &(struct o2g_region_options){.key = KEY + 1,
							 .address = 9,
							 .length = ~0ull}) ==
	     -LINUX_EINVAL);
	TRUE(o2g_region_add(p.bed[1].core,
			    &(struct o2g_region_options){.key = KEY + 1,
							 .first = 9,
							 .length = ~0ull}) ==
	     -LINUX_EINVAL);
	TRUE(pair_close(&p));
}

/* Moves at most so many bytes from `who` to the other. */
static void move_bytes(int who, u64 most)
{
	bed_write(&p.end[who], most);
	TRUE(bed_read(&p.end[!who], most) >= 0);
}

static void removed_amid_write(void)
{
	u64 at;

	open_with(BOTH);
	fill_buffer(mine, 1);
	write_to(0, SIZE, 1);
	move_bytes(0, 100000);
	at = window[50000];
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	memset(window, 0x11, SIZE);
	TRUE(at == mine[50000]);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, -LINUX_EKEYREJECTED));
	for (at = 0; at < SIZE && window[at] == 0x11; at++)
		;
	check(at == SIZE, "a removed region is not written to");
	TRUE(pair_close(&p));
}

/* Removed when `moved` bytes of it have gone: its memory is not looked at. */
static void removed_amid_read(u64 length, u64 moved)
{
	u8 *heap = malloc(SIZE);
	struct o2g_region_options options = {.key = KEY,
					     .address = (u64)heap,
					     .length = SIZE,
					     .rights = BOTH};
	u32 secret = 0;

	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	memset(heap, 0x55, SIZE);
	memset(mine, 0, SIZE);
	TRUE(o2g_region_add(p.bed[1].core, &options) == 0);
	read_from(0, length, 1);
	move_bytes(0, 1000);
	bed_write(&p.end[1], moved); /* the rest is planned, its DONE too */
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	free(heap); /* the sanitizer sees who looks */
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, -LINUX_EKEYREJECTED));
	for (u32 i = 0; i < SIZE; i++)
		secret += mine[i] == 0x55;
	check(secret <= moved,
	      "a removed region is not read, and the read fails");
	TRUE(p.bed[1].core->charged == 0);
	TRUE(pair_close(&p));
}

static void test_death(void)
{
	open_with(BOTH);
	write_to(0, SIZE, 1);
	read_from(0, SIZE, 2);
	move_bytes(0, 200000);
	move_bytes(1, 100000);
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_took(&p, 0, 1, -LINUX_ECONNRESET) ||
	     p.cqe.status == -LINUX_ECONNRESET);
	check(pair_took(&p, 0, 2, -LINUX_ECONNRESET) && pair_none(&p, 0),
	      "an access whose peer dies fails exactly once");
	TRUE(p.bed[1].core->charged == 0);
	TRUE(o2g_region_remove(p.bed[1].core, KEY) == 0);
	TRUE(pair_close(&p));
}

/* The other side says goodbye and answers nothing any more. */
static void test_goodbye(void)
{
	open_with(BOTH);
	write_to(0, 100, 1);
	o2g_conn_bye(p.end[1].conn);
	move_bytes(1, 1000);
	TRUE(o2g_conn_bye_received(p.end[0].conn));
	o2g_conn_bye(p.end[0].conn);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, -LINUX_ESHUTDOWN) &&
		      o2g_conn_bye_sent(p.end[0].conn),
	      "an access after BYE fails at once");
	TRUE(pair_close(&p));
	open_with(BOTH);
	write_to(0, 100, 1);
	read_from(0, 100, 2);
	bed_write(&p.end[0], 1000); /* both are out, and not read */
	o2g_conn_bye(p.end[1].conn);
	bed_write(&p.end[1], 1000);
	TRUE(bed_read(&p.end[0], 1000) > 0);
	check(pair_took(&p, 0, 1, -LINUX_ESHUTDOWN) &&
		      pair_took(&p, 0, 2, -LINUX_ESHUTDOWN),
	      "an access before the peer's BYE fails at the BYE");
	TRUE(pair_close(&p));
	open_with(BOTH);
	write_to(0, 100, 1);
	o2g_conn_bye(p.end[0].conn);
	move_bytes(0, 1 << 20);
	TRUE(!o2g_conn_bye_sent(p.end[0].conn));
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, 0) && o2g_conn_bye_sent(p.end[0].conn),
	      "BYE is sent after the answers to earlier accesses");
	TRUE(pair_close(&p));
}

static void test_events(void)
{
	struct o2g_sqe sqe = {.op = O2G_OP_WRITE,
			      .flags = O2G_SQE_DATA,
			      .peer = 1,
			      .tag = KEY,
			      .ignore = 3,
			      .addr = (u64)mine,
			      .length = 5,
			      .data = 0x123456789abcdef0,
			      .cookie = 1};

	open_with(BOTH);
	bed_submit(&p.bed[0], &sqe);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, 0));
	check(pair_took(&p, 1, 99, 0) && p.cqe.op == O2G_OP_WRITTEN &&
		      p.cqe.flags == O2G_CQE_DATA &&
		      p.cqe.data == 0x123456789abcdef0 && p.cqe.length == 5 &&
		      p.cqe.where == (u64)window + 3 && p.cqe.peer == 0,
	      "a write delivers its 64 bits of immediate data");
	TRUE(pair_close(&p));
	open_with(BOTH | O2G_REGION_EVENTS);
	write_to(0, 7, 1);
	read_from(0, 8, 2);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 1, 0) && pair_took(&p, 0, 2, 0));
	TRUE(pair_took(&p, 1, 99, 0) && p.cqe.op == O2G_OP_WRITTEN &&
	     p.cqe.length == 7);
	check(pair_took(&p, 1, 99, 0) && p.cqe.op == O2G_OP_READ_OUT &&
		      p.cqe.length == 8 && pair_none(&p, 1),
	      "a region can report each access");
	write_to(SIZE, 7, 3);
	TRUE(pair_run(&p) == 0);
	check(pair_none(&p, 1), "a region does not report a refused access");
	TRUE(pair_close(&p));
}

static void test_own_region(int later)
{
	open_with(0);
	TRUE(o2g_region_add(p.bed[0].core,
			    &(struct o2g_region_options){.key = 5,
							 .address = (u64)window,
							 .length = SIZE,
							 .rights = BOTH}) == 0);
	p.bed[0].put_off = later;
	fill_buffer(mine, 3);
	for (int i = 0; i < 2; i++) {
		const struct o2g_sqe sqe = {.op = i ? O2G_OP_READ
						    : O2G_OP_WRITE,
					    .peer = 0,
					    .tag = 5,
					    .ignore = (u64)i,
					    .addr = (u64)mine,
					    .length = 1000,
					    .cookie = 7};

		bed_submit(&p.bed[0], &sqe);
		TRUE(!later || pair_none(&p, 0));
		bed_copies(&p.bed[0]);
		TRUE(pair_took(&p, 0, 7, 0));
	}
	check(mine[0] == window[1] && window[1] != window[0] &&
		      mine[999] == 0xee,
	      "an endpoint may access memory of its own");
	TRUE(p.bed[0].core->charged == 0 && p.bed[0].core->messages.used == 0);
	TRUE(pair_close(&p));
}

/* An access of its own is being copied when its region is removed. */
static void removed_own_region(u8 op)
{
	const struct o2g_region_options options = {.key = 5,
						   .address = (u64)window,
						   .length = SIZE,
						   .rights = BOTH};
	const struct o2g_sqe sqe = {.op = op,
				    .tag = 5,
				    .addr = (u64)mine,
				    .length = 1000,
				    .cookie = 7};

	open_with(0);
	TRUE(o2g_region_add(p.bed[0].core, &options) == 0);
	p.bed[0].put_off = 1;
	bed_submit(&p.bed[0], &sqe);
	TRUE(p.bed[0].laters == 1);
	TRUE(o2g_region_remove(p.bed[0].core, 5) == 0 && pair_none(&p, 0));
	bed_copies(&p.bed[0]);
	check(pair_took(&p, 0, 7, -LINUX_EKEYREJECTED) && pair_none(&p, 0),
	      "an own access whose region is removed fails exactly once");
	TRUE(p.bed[0].core->charged == 0 && p.bed[0].core->messages.used == 0);
	TRUE(pair_close(&p));
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

static struct o2g_frame write_frame(u32 id, u64 place, u64 length, u32 first)
{
	return (struct o2g_frame){.type = O2G_WRITE,
				  .body = first,
				  .id = id,
				  .tag = KEY,
				  .data = place,
				  .length = length};
}

static void cut_off(const char *name, struct o2g_frame frame, u32 length)
{
	open_with(BOTH);
	check(receive_frame(frame, length) == -LINUX_EPROTO, name);
	TRUE(pair_close(&p));
}

static void test_forgeries(void)
{
	struct o2g_frame frame = write_frame(1, 0, 4, 5);

	cut_off("a write shorter than its first piece is refused", frame, 5);
	frame = write_frame(0, 0, 4, 4);
	cut_off("a write without an id is refused", frame, 4);
	frame = write_frame(1, 0, 4, 4);
	frame.high = 1;
	cut_off("immediate data of a write without its flag are refused", frame,
		4);
	frame = (struct o2g_frame){.type = O2G_MESSAGE, .id = 1, .high = 1};
	cut_off("a write's field in a message is refused", frame, 0);
	frame = (struct o2g_frame){.type = O2G_READ, .id = 1, .body = 1};
	cut_off("a read with a body is refused", frame, 1);
	frame = (struct o2g_frame){.type = O2G_DONE, .id = 1};
	cut_off("an answer to no access is refused", frame, 0);
	frame.context = O2G_DONE_MAX + 1;
	cut_off("an answer with an invalid error is refused", frame, 0);
	frame = (struct o2g_frame){.type = O2G_REPLY, .id = 1, .body = 1};
	cut_off("a reply to no read is refused", frame, 1);
}

/* Endpoint 1 asks, and its peer answers wrongly. */
static void bad_answers(void)
{
	struct o2g_frame reply = {.type = O2G_REPLY, .id = 1, .body = 11};
	struct o2g_frame done = {.type = O2G_DONE, .id = 1};

	for (int i = 0; i < 4; i++) {
		open_with(BOTH);
		submit_access(1, i < 2 ? O2G_OP_READ : O2G_OP_WRITE, 1, 0, mine,
			      10, 8);
		if (i != 3)
			bed_write(&p.end[1], 1000);
		check(receive_frame(i == 0 || i == 2 ? reply : done,
				    i == 0 || i == 2 ? 11 : 0) == -LINUX_EPROTO,
		      i == 0   ? "a reply longer than its read is refused"
		      : i == 1 ? "a reply shorter than its read is refused"
		      : i == 2 ? "a reply to a write is refused"
			       : "an answer before its request was sent is "
				 "refused");
		TRUE(mine[9] == 0xdd && mine[10] == 0xdd);
		TRUE(pair_close(&p));
	}
	open_with(BOTH);
	submit_access(1, O2G_OP_WRITE, 1, 0, mine, 10, 8);
	bed_write(&p.end[1], 1000);
	TRUE(receive_frame(done, 0) > 0 && pair_took(&p, 1, 8, 0));
	check(receive_frame(done, 0) == -LINUX_EPROTO,
	      "a second answer is refused");
	TRUE(pair_close(&p));
}

static int done_early(u32 context, u64 length, u64 out)
{
	const struct o2g_frame done = {
		.type = O2G_DONE, .id = 1, .context = context};

	open_with(BOTH);
	submit_access(1, O2G_OP_WRITE, 1, 0, mine, length, 8);
	bed_write(&p.end[1], out);
	return receive_frame(done, 0);
}

/* A member of the job answers what another one was asked. */
static int foreign_answer(struct o2g_frame frame, u8 op)
{
	struct bed_end more[2];
	struct bed third;
	int rc;

	open_with(BOTH);
	bed_open(&third, &pair_plain);
	TRUE(o2g_core_peer(third.core, 1, 0) == 0);
	TRUE(o2g_core_peer(p.bed[1].core, 2, 0) == 0);
	bed_join(&third, 1, O2G_CREDIT_MIN, &p.bed[1], 2, O2G_CREDIT_MIN, more);
	submit_access(1, op, 1, 0, mine, 10, 8);
	bed_write(&p.end[1], 1000);
	for (u32 i = 0; i < sizeof(frame) + 10; i++)
		more[1].in->byte[more[1].in->tail++] =
			i < sizeof(frame) ? ((u8 *)&frame)[i] : 0x77;
	rc = bed_read(&more[1], sizeof(frame) + 10);
	TRUE(pair_none(&p, 1) && mine[0] == 0xdd);
	bed_part(more);
	TRUE(bed_close(&third) == 0);
	TRUE(pair_close(&p));
	return rc;
}

static void wrong_answers(void)
{
	struct o2g_frame frame = {.type = O2G_DONE, .id = 1};

	check(done_early(0, SIZE, 0) == -LINUX_EPROTO,
	      "an answer to a request that is partly sent is refused");
	TRUE(pair_close(&p));
	check(done_early(O2G_DONE_MAX + 1, 10, 1000) == -LINUX_EPROTO,
	      "an early answer with an invalid error is refused");
	TRUE(pair_close(&p));
	check(done_early(O2G_DONE_MAX, 10, 1000) > 0 &&
		      pair_took(&p, 1, 8, -O2G_DONE_MAX),
	      "the largest error is accepted");
	TRUE(pair_close(&p));
	check(foreign_answer(frame, O2G_OP_WRITE) == -LINUX_EPROTO,
	      "an answer from another peer is refused");
	frame.type = O2G_REPLY;
	frame.body = 10;
	check(foreign_answer(frame, O2G_OP_READ) == -LINUX_EPROTO,
	      "a reply from another peer is refused");
}

/* A peer that opens as many accesses as its credit lets it. */
static void test_flood(void)
{
	u32 id = 0;

	open_with(BOTH);
	while (receive_frame(write_frame(++id, 0, 2, 1), 1) > 0)
		;
	check(id == O2G_CREDIT_MIN / O2G_MESSAGE_COST + 1,
	      "a peer has no more accesses in flight than its credit");
	TRUE(p.bed[1].core->charged ==
	     (u64)(id - 1) * sizeof(struct o2g_message));
	bed_end(&p.end[1], -104);
	TRUE(p.bed[1].core->charged == 0);
	TRUE(pair_close(&p));
}

static void not_offered(void)
{
	open_with(BOTH);
	p.bed[0].core->limits.access = 0;
	write_to(0, 1, 1);
	check(pair_took(&p, 0, 1, -LINUX_EINVAL),
	      "an engine without remote memory access refuses it");
	TRUE(pair_close(&p));
}

void rma_run(check_fn *judge)
{
	static const u64 lengths[] = {0,     1,	     64,     65,
				      16384, 131072, 131073, SIZE - 64};

	check = judge;
	for (u32 i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		test_write_length(lengths[i]);
	test_credit();
	test_refusals();
	test_names();
	removed_amid_write();
	removed_amid_read(SIZE, 0);
	removed_amid_read(SIZE, 20);
	removed_amid_read(SIZE, 150000);
	removed_amid_read(1000, 0);
	removed_amid_read(1000, 500);
	test_death();
	test_goodbye();
	test_events();
	test_own_region(0);
	test_own_region(1);
	removed_own_region(O2G_OP_READ);
	removed_own_region(O2G_OP_WRITE);
	test_forgeries();
	bad_answers();
	wrong_answers();
	test_flood();
	not_offered();
}
