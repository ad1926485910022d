/* SPDX-License-Identifier: MIT */
/* What must not wait for ever: each of these ends, and it ends by itself. */
#include "pair.h"
#include "suite.h"

#define OWN 200u /* messages to itself */
#define BEYOND (O2G_CREDIT_MIN / O2G_MESSAGE_COST + 1)
#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static u8 out[100000], in[100000];
static check_fn *check;

/* The core does not know who it was, so the engine has to say that the peer
 * is lost; what came whole from it is anybody's. */
static void test_nameless(void)
{
	pair_open_unnamed(&p);
	bed_send(&p.bed[0], 1, 1, out, 10, 1);
	TRUE(pair_run(&p) == 0);
	bed_send(&p.bed[1], 0, 2, out, 10, 2);
	bed_recv(&p.bed[1], 0, 1, 0, in, 10, 3);
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_none(&p, 1));
	o2g_core_lost(p.bed[1].core, 0, -104);
	TRUE(pair_took(&p, 1, 2, -104) && pair_took(&p, 1, 3, -104));
	bed_send(&p.bed[1], 0, 2, out, 10, 4);
	bed_recv(&p.bed[1], 0, 1, 0, in, 10, 5);
	check(pair_took(&p, 1, 4, -104) && pair_took(&p, 1, 5, -104),
	      "a peer that ended before it was added is dead");
	bed_recv(&p.bed[1], O2G_ANY_PEER, 1, 0, in, 10, 6);
	TRUE(pair_took(&p, 1, 6, 0) && p.cqe.peer == O2G_NO_PEER);
	TRUE(pair_close(&p));
}

/* A header that finds no memory may be the last thing that comes: a message
 * without a body, or one that waits for its GRANT. */
static void header_last(u64 length)
{
	struct bed_options one = pair_plain;

	one.unexpected = sizeof(struct o2g_message);
	pair_open(&p, &one, O2G_CREDIT_MIN);
	bed_send(&p.bed[0], 1, 1, out, 0, 1);
	bed_send(&p.bed[0], 1, 2, out, length, 2);
	TRUE(pair_run(&p) == 0);
	TRUE(p.end[1].conn->rx == O2G_RX_START);
	TRUE(p.bed[1].area->sq.flags == (O2G_NEED_KICK | O2G_NEED_BODIES));
	bed_recv(&p.bed[1], 0, 1, 0, in, 10, 11);
	TRUE(pair_took(&p, 1, 11, 0));
	bed_recv(&p.bed[1], 0, 2, 0, in, length, 12);
	TRUE(pair_run(&p) == 0);
	check(pair_took(&p, 1, 12, 0) && p.cqe.length == length,
	      length ? "a request that came last begins when there is memory"
		     : "an empty message that came last begins when there is "
		       "memory");
	TRUE(pair_close(&p));
}

/* A sender that is out of credit says no more: it is enough that less is held
 * than when it said its last. */
static void written_off_late(u32 batch)
{
	struct bed_options options = pair_plain;
	u32 own = 0;

	options.batch = batch;
	options.write_off = OWN * sizeof(struct o2g_message);
	pair_open(&p, &options, O2G_CREDIT_MIN);
	for (u64 i = 0; i < OWN; i++) {
		bed_send(&p.bed[1], 1, 9, out, 1, i);
		own += pair_took(&p, 1, i, 0);
	}
	for (u64 i = 0; i < OWN / 2; i++)
		bed_send(&p.bed[0], 1, 5, out, 0, i);
	bed_send(&p.bed[0], 1, 7, out, 1, OWN);
	bed_recv(&p.bed[1], 0, 7, 0, in, 1, OWN);
	TRUE(pair_run(&p) == 0 && pair_none(&p, 1));
	for (u64 i = 0; i < OWN; i++) {
		bed_recv(&p.bed[1], 1, 9, 0, in, 1, i);
		own += pair_took(&p, 1, i, 0);
	}
	TRUE(own == 2 * OWN && pair_run(&p) == 0);
	check(pair_took(&p, 1, OWN, 0),
	      batch ? "credit that could not be returned is returned later, "
		      "also in batches"
		    : "credit that could not be returned is returned when less "
		      "is buffered");
	TRUE(pair_close(&p));
}

/* Two of them, in batches: one at a time. */
static void written_off_in_turn(void)
{
	struct bed_options options = pair_plain;
	struct bed to, from[2];
	struct bed_end end[2][2];
	struct o2g_cqe cqe;
	u32 more = 0;

	options.cq = 1024;
	options.postings = 1024;
	options.batch = 8;
	options.write_off = OWN * sizeof(struct o2g_message);
	bed_open(&to, &options);
	o2g_core_peer(to.core, 0, 1);
	for (u64 i = 0; i < OWN; i++)
		bed_send(&to, 0, 9, out, 1, i);
	for (u32 i = 0; i < 2; i++) {
		bed_open(&from[i], &pair_plain);
		o2g_core_peer(from[i].core, 0, 0);
		o2g_core_peer(to.core, 1 + i, 0);
		bed_join(&from[i], 0, O2G_CREDIT_MIN, &to, 1 + i,
			 O2G_CREDIT_MIN, end[i]);
		for (u64 k = 0; k < BEYOND; k++)
			bed_send(&from[i], 0, 5, out, 0, k);
		TRUE(bed_run(end[i]) == 0);
	}
	TRUE(to.core->counts.unmatched == OWN + 2 * (BEYOND - 1));
	for (u64 i = 0; i < OWN; i++) {
		bed_recv(&to, 0, 9, 0, in, 1, i);
		more += (u32)o2g_core_more(to.core);
	}
	TRUE(more == 1);
	for (u32 i = 0; i < 2; i++)
		TRUE(bed_run(end[i]) == 0);
	check(to.core->counts.unmatched == 2 * BEYOND,
	      "of several peers one at a time gets credit back");
	for (u32 i = 0; i < 2; i++) {
		bed_part(end[i]);
		TRUE(!bed_close(&from[i]));
	}
	while (bed_take(&to, &cqe))
		;
	TRUE(!bed_close(&to));
}

void life_run(check_fn *of_suite)
{
	check = of_suite;
	test_nameless();
	header_last(0);
	header_last(sizeof(out));
	written_off_late(0);
	written_off_late(8);
	written_off_in_turn();
}
