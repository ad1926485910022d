/* SPDX-License-Identifier: MIT */
/*
 * What matching costs, in entries looked at, with as many receives and
 * messages as a program may have. Counted, not timed.
 */
#include <stdio.h>

#include "pair.h"
#include "suite.h"

#define MANY 100000u
#define SOURCES 1000u
#define MOVED_MAX 200 /* entries, while a receive is posted */

static struct bed bed;
static u8 body[8];
static int light_hash;

static u64 entries_examined(void)
{
	return bed.core->table.compared + bed.core->scanned;
}

static void open_large(void)
{
	const struct bed_options options = {.sq = 16,
					    .cq = 0x10000,
					    .postings = 4 * MANY,
					    .peers = SOURCES + 1,
					    .unexpected = 1ull << 30,
					    .light_hash = light_hash};

	bed_open(&bed, &options);
	for (u32 i = 0; i <= SOURCES; i++)
		o2g_core_peer(bed.core, i, i == 0);
}

static u32 take_all(void)
{
	struct o2g_cqe cqe;
	u32 got = 0;

	while (bed_take(&bed, &cqe))
		got += cqe.op == O2G_OP_RECV && !cqe.status;
	return got;
}

/* Entries looked at for each pair, in hundredths. */
static u32 cost_per_pair(u64 before)
{
	return (u32)((entries_examined() - before) * 100 / MANY);
}

static void report_cost(check_fn *check, const char *name, u32 per_pair,
			u32 got)
{
	printf("# %s: %u.%02u entries for each\n", name, per_pair / 100,
	       per_pair % 100);
	check(per_pair < 2000 && got == MANY, name);
}

/* Tag i of `tags`; for the light hash they differ in bits of both halves. */
static u64 tag_of(u32 i, u32 tags)
{
	return (u64)(i % tags) << (light_hash ? 24 : 0);
}

/* Receives first, then a flood; `tags` different ones. */
static void test_posted(check_fn *check, const char *name, u32 tags, u64 ignore)
{
	u64 before, moved, most = 0;
	u32 got = 0;

	open_large();
	before = entries_examined();
	for (u32 i = 0; i < MANY; i++) {
		moved = bed.core->table.rehashed;
		bed_recv(&bed, O2G_ANY_PEER, tag_of(i, tags), ignore, body, 0,
			 i);
		moved = bed.core->table.rehashed - moved;
		most = moved > most ? moved : most;
	}
	check(most <= MOVED_MAX &&
		      (tags < MANY || bed.core->table.rehashed > MANY / 2),
	      "the table grows without a long pause");
	for (u32 i = MANY; i-- > 0;) {
		bed_send(&bed, 0, tag_of(i, tags), body, 0, i);
		got += i % 4096 ? 0 : take_all();
	}
	report_cost(check, name, cost_per_pair(before), got);
	check(!bed_close(&bed), "memory");
}

static void test_unmatched(check_fn *check, const char *name, u32 tags,
			   u64 ignore)
{
	u64 before;
	u32 got = 0;

	open_large();
	before = entries_examined();
	for (u32 i = 0; i < MANY; i++) {
		bed_send(&bed, 0, tag_of(i, tags), body, 0, i);
		if (i % 4096 == 0)
			take_all();
	}
	for (u32 i = MANY; i-- > 0;) {
		bed_recv(&bed, O2G_ANY_PEER, tag_of(i, tags), ignore, body, 0,
			 i);
		got += i % 4096 ? 0 : take_all();
	}
	report_cost(check, name, cost_per_pair(before), got);
	check(!bed_close(&bed), "memory");
}

static int send_message(struct o2g_conn *conn, u32 id, u64 tag)
{
	const struct o2g_frame frame = {
		.type = O2G_MESSAGE, .id = id, .context = 1, .tag = tag};
	struct o2g_piece piece;

	if (o2g_rx_want(conn, &piece) || piece.length != sizeof(frame))
		return 0;
	memcpy(piece.core, &frame, sizeof(frame));
	return !o2g_rx_done(conn, sizeof(frame));
}

/* Directed receives, some from anybody between them, and as many senders. */
static void test_sources(check_fn *check)
{
	static struct o2g_conn *conn[SOURCES];
	static struct bed_end end;
	const struct o2g_counts *counts;
	u64 before;
	u32 said = 0;

	open_large();
	counts = &bed.core->counts;
	for (u32 i = 0; i < SOURCES; i++)
		o2g_conn_attach(bed.core, i + 1, 1 << 20, 1 << 20, &end,
				&conn[i]);
	before = entries_examined();
	for (u32 i = 0; i < MANY; i++)
		bed_recv(&bed, i % 7 ? 1 + i % SOURCES : O2G_ANY_PEER, 5,
			 i % 3 ? 0 : ~0ull, body, 0, i);
	for (u32 i = 0; i < MANY; i++) {
		said += send_message(conn[i % SOURCES], 1, 5);
		if (i % 4096 == 0)
			take_all();
	}
	check(counts->received > MANY / 2 &&
		      counts->received + counts->unmatched == MANY,
	      "senders' messages are received or buffered");
	report_cost(check, "1,000 senders", cost_per_pair(before), said);
	for (u32 i = 0; i < SOURCES; i++)
		o2g_conn_end(conn[i], 0);
	check(!bed_close(&bed), "memory");
}

/* One sender with little credit, which gets it back early. */
static void credit_written_off(check_fn *check)
{
	static struct o2g_conn *conn;
	static struct bed_end end;
	struct o2g_piece piece[4];
	u64 before;
	u32 said = 0;

	open_large();
	bed.core->limits.write_off = 1ull << 30;
	o2g_conn_attach(bed.core, 1, 1 << 20, O2G_CREDIT_MIN, &end, &conn);
	before = entries_examined();
	for (u32 i = 0; i < MANY; i++) {
		int n;

		said += send_message(conn, 1, 5);
		while ((n = o2g_tx_gather(conn, piece, 4)) > 0)
			while (n-- > 0)
				o2g_tx_done(conn, piece[n].length);
	}
	report_cost(check, "100,000 messages whose credit is written off",
		    cost_per_pair(before), said);
	o2g_conn_end(conn, 0);
	check(!bed_close(&bed), "memory");
}

void cost_run(check_fn *check)
{
	test_posted(check, "100,000 receives from any peer, each its tag", MANY,
		    0);
	test_posted(check, "100,000 receives from any peer, one tag", 1, 0);
	test_posted(check, "100,000 receives from any peer with any tag", 1,
		    ~0ull);
	test_posted(check, "100,000 receives with a mask", 1000,
		    0xff00000000ull);
	test_unmatched(check, "100,000 unmatched, each its tag", MANY, 0);
	test_unmatched(check, "100,000 unmatched, one tag", 1, 0);
	test_unmatched(check, "100,000 unmatched, with a mask", MANY,
		       0xffull << 40);
	light_hash = 1;
	test_posted(check, "100,000 receives, hashed lightly", MANY, 0);
	test_unmatched(check, "100,000 unmatched, hashed lightly", MANY, 0);
	light_hash = 0;
	test_sources(check);
	credit_written_off(check);
}
