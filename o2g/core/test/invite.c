/* SPDX-License-Identifier: MIT */
/* Messages beyond credit that no receive matches, while there is memory. */
#include <string.h>

#include "pair.h"
#include "suite.h"

#define LONG 300000u
#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static u8 out[LONG], in[LONG + 1];
static u64 spare;
static check_fn *check;

static u64 host_spare(void *ctx)
{
	(void)ctx;
	return spare;
}

static void open_invited(const struct bed_options *plain, u64 invited)
{
	pair_open(&p, plain, O2G_CREDIT_MIN);
	p.bed[1].core->limits.invited = invited;
	p.bed[1].core->host.spare = host_spare;
	spare = ~0ull;
	for (u32 i = 0; i < LONG; i++)
		out[i] = (u8)(i * 7 + i / 251);
	memset(in, 0xdd, sizeof(in));
}

static struct bed_options widen_options(const struct bed_options *plain)
{
	struct bed_options options = *plain;

	options.unexpected = 8u << 20;
	options.slab = plain->slab ? 4u << 20 : 0;
	return options;
}

static void receive_all(u64 tag, u64 length, u64 cookie)
{
	bed_recv(&p.bed[1], 0, tag, 0, in, length, cookie);
	TRUE(pair_run(&p) == 0);
}

/* As the program takes a body that lies in the slab. */
static int took_long(u64 cookie)
{
	if (!pair_took(&p, 1, cookie, 0))
		return 0;
	if (p.cqe.flags & O2G_CQE_SLAB) {
		memcpy((void *)p.cqe.total, (u8 *)p.bed[1].area + p.cqe.where,
		       p.cqe.length);
		bed_submit(&p.bed[1], &(struct o2g_sqe){.op = O2G_OP_RELEASE,
							.data = p.cqe.where});
	}
	return p.cqe.length == LONG && !memcmp(in, out, LONG) &&
	       in[LONG] == 0xdd;
}

static void close_quiet(void)
{
	TRUE(pair_none(&p, 0) && pair_none(&p, 1));
	TRUE(p.bed[1].core->charged == 0);
	TRUE(p.end[0].conn->spent_out == p.end[1].conn->spent_in);
	TRUE(pair_close(&p));
}

static void test_unposted(const struct bed_options *plain)
{
	const struct bed_options options = widen_options(plain);

	open_invited(&options, 1 << 20);
	bed_send(&p.bed[0], 1, 5, out, LONG, 1);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 0, 1, 0) && p.bed[0].core->counts.requested == 1 &&
		      p.bed[1].core->charged > LONG,
	      "a sender beyond credit is not held while there is memory");
	receive_all(5, LONG, 2);
	check(took_long(2),
	      "what was buffered beyond credit is received whole");
	bed_send(&p.bed[0], 1, 5, out, LONG, 3);
	TRUE(pair_run(&p) == 0 && pair_took(&p, 0, 3, 0));
	receive_all(5, 1000, 4);
	check(pair_took(&p, 1, 4, -LINUX_EMSGSIZE) && p.cqe.length == 1000,
	      "and truncated for a receive that is too short");
	close_quiet();
}

/* The receive is posted when so many bytes are here. */
static void test_half(u64 moved)
{
	const struct bed_options options = widen_options(&pair_plain);

	open_invited(&options, 1 << 20);
	bed_send(&p.bed[0], 1, 5, out, LONG, 1);
	bed_write(&p.end[0], 1000);
	TRUE(bed_read(&p.end[1], 1000) > 0);
	bed_write(&p.end[1], 1000);
	TRUE(bed_read(&p.end[0], 1000) > 0);
	bed_write(&p.end[0], moved);
	TRUE(bed_read(&p.end[1], moved) > 0);
	receive_all(5, LONG, 2);
	check(pair_took(&p, 1, 2, 0) && pair_took(&p, 0, 1, 0) &&
		      !memcmp(in, out, LONG),
	      "a receive that comes meanwhile gets the rest directly");
	close_quiet();
}

/* Memory bounds the sum, and what does not fit waits for it. */
static void test_memory(void)
{
	const struct bed_options options = widen_options(&pair_plain);

	open_invited(&options, 2 * LONG + 4096);
	for (u64 i = 0; i < 3; i++)
		bed_send(&p.bed[0], 1, i, out, LONG, i);
	TRUE(pair_run(&p) == 0);
	TRUE(pair_took(&p, 0, 0, 0) && pair_took(&p, 0, 1, 0));
	check(pair_none(&p, 0) && p.bed[1].core->charged <= 2 * LONG + 3 * 4096,
	      "the sum of what is granted stays within the share");
	receive_all(0, LONG, 8);
	TRUE(pair_took(&p, 1, 8, 0));
	check(pair_took(&p, 0, 2, 0),
	      "a sender goes on as soon as memory is free");
	receive_all(1, LONG, 8);
	receive_all(2, LONG, 9);
	TRUE(pair_took(&p, 1, 8, 0) && pair_took(&p, 1, 9, 0));
	spare = LONG - 1;
	bed_send(&p.bed[0], 1, 1, out, LONG, 7);
	TRUE(pair_run(&p) == 0);
	check(pair_none(&p, 0), "a computer without memory grants nothing");
	receive_all(1, LONG, 8);
	TRUE(pair_took(&p, 0, 7, 0) && pair_took(&p, 1, 8, 0));
	close_quiet();
}

static void test_ends(void)
{
	const struct bed_options options = widen_options(&pair_plain);

	for (u64 moved = 0; moved < 400000; moved += 50000) {
		open_invited(&options, 1 << 20);
		bed_send(&p.bed[0], 1, 5, out, LONG, 1);
		bed_send(&p.bed[0], 1, 6, out, 2 << 20, 2);
		bed_write(&p.end[0], 1000);
		TRUE(bed_read(&p.end[1], 1000) > 0);
		bed_write(&p.end[1], 1000);
		TRUE(bed_read(&p.end[0], 1000) > 0);
		bed_write(&p.end[0], moved);
		TRUE(bed_read(&p.end[1], moved) >= 0);
		bed_end(&p.end[0], -104);
		bed_end(&p.end[1], -104);
		receive_all(5, LONG, 3);
		TRUE(pair_took(&p, 1, 3, 0) ||
		     p.cqe.status == -LINUX_ECONNRESET);
		TRUE(p.bed[1].core->charged == 0 &&
		     p.bed[1].core->messages.used == 0);
		TRUE(pair_close(&p));
	}
	open_invited(&options, 1 << 20);
	bed_send(&p.bed[0], 1, 5, out, LONG, 1);
	TRUE(pair_run(&p) == 0 && pair_took(&p, 0, 1, 0));
	bed_submit(&p.bed[1], &(struct o2g_sqe){.op = O2G_OP_PEEK,
						.flags = O2G_SQE_CLAIM,
						.peer = 0,
						.context = 1,
						.tag = 5,
						.cookie = 4});
	TRUE(pair_took(&p, 1, 4, 0) && p.cqe.length == LONG);
	bed_submit(&p.bed[1], &(struct o2g_sqe){.op = O2G_OP_DISCARD,
						.data = p.cqe.where});
	check(p.bed[1].core->charged == 0 && p.bed[1].core->messages.used == 0,
	      "a message beyond credit is discarded as any other");
	TRUE(pair_run(&p) == 0);
	close_quiet();
}

/* Pieces before the GRANT went out. */
static void test_early(void)
{
	const struct bed_options options = widen_options(&pair_plain);
	struct o2g_frame frame = {
		.type = O2G_REQUEST, .id = 1, .tag = 5, .length = LONG};
	struct bed_pipe *pipe;

	open_invited(&options, 1 << 20);
	pipe = p.end[1].in;
	for (u32 i = 0; i < sizeof(frame); i++)
		pipe->byte[pipe->tail++] = ((u8 *)&frame)[i];
	frame = (struct o2g_frame){.type = O2G_PIECE, .id = 1, .body = 1};
	for (u32 i = 0; i < sizeof(frame) + 1; i++)
		pipe->byte[pipe->tail++] =
			i < sizeof(frame) ? ((u8 *)&frame)[i] : 7;
	check(bed_read(&p.end[1], 1000) == -LINUX_EPROTO,
	      "a piece before its grant ends the connection");
	TRUE(pair_close(&p));
}

void invite_run(check_fn *judge)
{
	check = judge;
	test_unposted(&pair_plain);
	test_unposted(&pair_slab);
	test_half(100);
	test_half(150000);
	test_half(LONG - 1000);
	test_memory();
	test_ends();
	test_early();
}
