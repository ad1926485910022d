/* SPDX-License-Identifier: MIT */
/* One check for each thing the core promises to a program. */
#include <tests/tap.h>

#include "pair.h"
#include "suite.h"

#define NAMED(condition, name) tap_ok(!!(condition), name)

static u8 out[1 << 20], in[1 << 20];
static struct pair p;

static u8 *host_pointer(u64 address)
{
	return (u8 *)address;
}

static void submit_entry(int who, struct o2g_sqe sqe)
{
	if (!sqe.context)
		sqe.context = 1;
	bed_submit(&p.bed[who], &sqe);
}

static void submit_send(u64 tag, const void *body, u64 length, u64 cookie)
{
	bed_send(&p.bed[0], 1, tag, body, length, cookie);
}

static void submit_recv(u64 tag, void *body, u64 length, u64 cookie)
{
	bed_recv(&p.bed[1], 0, tag, 0, body, length, cookie);
}

static void test_expected(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_recv(7, in, 16, 11);
	submit_send(7, "hello", 6, 22);
	TAP(pair_run(&p) == 0);
	TAP(pair_took(&p, 0, 22, 0) && p.cqe.length == 6);
	TAP(pair_took(&p, 1, 11, 0) && p.cqe.length == 6 && p.cqe.peer == 0);
	NAMED(!memcmp(in, "hello", 6),
	      "a receive posted before its message gets the body");
	TAP(pair_close(&p));
}

static void test_unexpected(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_send(7, "hello", 6, 22);
	TAP(pair_run(&p) == 0);
	memset(in, 0, 16);
	bed_recv(&p.bed[1], O2G_ANY_PEER, 3, ~0ull, in, 16, 11);
	TAP(pair_took(&p, 1, 11, 0) && p.cqe.tag == 7);
	NAMED(!memcmp(in, "hello", 6),
	      "a receive posted after its message gets the body");
	TAP(pair_close(&p));
}

static void test_rendezvous(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_send(1, out, sizeof(out), 1);
	submit_send(2, "b", 1, 2);
	TAP(pair_run(&p) == 0);
	submit_recv(2, in, 1, 12);
	NAMED(pair_took(&p, 1, 12, 0) && in[0] == 'b',
	      "a later message overtakes one that waits for credit");
	TAP(p.bed[1].core->charged == sizeof(struct o2g_message));
	memset(in, 0, sizeof(in));
	submit_recv(1, in, sizeof(in), 11);
	TAP(pair_run(&p) == 0);
	NAMED(pair_took(&p, 1, 11, 0) && !memcmp(in, out, sizeof(in)),
	      "a message above the credit is sent when it is granted");
	TAP(pair_took(&p, 0, 2, 0) && pair_took(&p, 0, 1, 0));
	TAP(pair_close(&p));
}

/* Half of it has come when its receive is posted. */
static void test_halfway(const struct bed_options *options, int later)
{
	pair_open(&p, options, 0x100000);
	p.bed[1].put_off = later;
	submit_send(1, out, 50000, 1);
	bed_write(&p.end[0], 20000);
	bed_read(&p.end[1], 20000);
	TAP(p.bed[1].core->counts.unmatched == 1);
	memset(in, 0, 50000);
	submit_recv(1, in, 50000, 11);
	TAP(pair_none(&p, 1));
	TAP(!later == !memcmp(in, out, 20000 - O2G_FRAME_SIZE));
	bed_write(&p.end[0], 10000);
	bed_read(&p.end[1], 10000);
	NAMED(!memcmp(in + 20000 - O2G_FRAME_SIZE, out + 20000 - O2G_FRAME_SIZE,
		      10000),
	      "the rest of a message is written into the receive's buffer");
	TAP(pair_run(&p) == 0);
	TAP(pair_took(&p, 1, 11, 0) && !memcmp(in, out, 50000));
	TAP(pair_close(&p));
}

/* The engine was told a place, then the receive comes, then the bytes. */
static void test_offered(const struct bed_options *options)
{
	const u8 *body;
	int got;

	pair_open(&p, options, 0x100000);
	submit_send(1, out, 50000, 1);
	bed_write(&p.end[0], 20000);
	bed_read(&p.end[1], 10000);
	bed_offer(&p.end[1]);
	memset(in, 0, 50000);
	submit_recv(1, in, 50000, 11);
	TAP(pair_none(&p, 1) && pair_run(&p) == 0);
	got = pair_took(&p, 1, 11, 0);
	body = p.cqe.flags & O2G_CQE_SLAB ? (u8 *)p.bed[1].area + p.cqe.where
					  : in;
	NAMED(got && !memcmp(body, out, 50000),
	      "an offered buffer stays valid when its message is matched");
	TAP(pair_close(&p));
}

static void test_truncated(u64 length, u64 room, int before)
{
	if (before)
		submit_recv(1, in, room, 11);
	submit_send(1, out, length, 1);
	pair_run(&p);
	if (!before)
		submit_recv(1, in, room, 11);
	pair_run(&p);
	TAP(pair_took(&p, 1, 11, -90) && p.cqe.length == room &&
	    p.cqe.total == length);
	TAP(pair_took(&p, 0, 1, 0));
}

static void test_truncation(void)
{
	int lost = 0;

	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	test_truncated(1000, 10, 1);
	test_truncated(1000, 10, 0);
	test_truncated(1000, 0, 1);
	test_truncated(100000, 70000, 1);
	test_truncated(100000, 70000, 0);
	test_truncated(100000, 0, 0);
	for (u64 i = 0; i < 100; i++) {
		submit_recv(1, in, 5, i);
		submit_send(1, out, 3000, i);
		pair_run(&p);
		lost += !pair_took(&p, 1, i, -90) || !pair_took(&p, 0, i, 0);
	}
	NAMED(!lost, "the credit of a cut message is returned");
	TAP(p.bed[0].core->counts.waited == 0);
	TAP(pair_close(&p));
}

/* All credit but a little lies in messages that nobody receives, the little
 * comes back although it is less than a quarter. */
static void low_traffic(void)
{
	const u32 most = O2G_CREDIT_MIN / O2G_MESSAGE_COST;

	pair_open(&p, &pair_plain, O2G_CREDIT_MIN);
	for (u32 i = 0; i < most; i++)
		submit_send(i ? 5 : 6, 0, 0, i);
	submit_send(7, 0, 0, 99);
	TAP(pair_run(&p) == 0 && p.bed[0].core->counts.waited == 1);
	submit_recv(7, in, 1, 12);
	TAP(pair_run(&p) == 0 && pair_none(&p, 1));
	submit_recv(6, in, 1, 11);
	TAP(pair_run(&p) == 0 && pair_took(&p, 1, 11, 0));
	NAMED(pair_took(&p, 1, 12, 0),
	      "a little credit is returned to a sender that has none");
	TAP(pair_close(&p));
}

/* Far more than the credit is sent before the message that is wanted. */
static void test_write_off(void)
{
	struct bed_options options = pair_plain;

	options.write_off = options.unexpected;
	options.postings = 4096;
	pair_open(&p, &options, O2G_CREDIT_MIN);
	for (u64 i = 0; i < 1000; i++) {
		bed_send(&p.bed[0], 1, 5, out, i % 100, i);
		pair_run(&p);
		pair_took(&p, 0, i, 0);
	}
	submit_recv(7, in, 1, 11);
	submit_send(7, out, 1, 1);
	TAP(pair_run(&p) == 0);
	NAMED(pair_took(&p, 1, 11, 0) &&
		      p.bed[1].core->counts.unmatched == 1000,
	      "credit is returned early while there is memory");
	TAP(pair_close(&p));
}

static void test_cancel(void)
{
	const struct o2g_sqe sqe = {.op = O2G_OP_CANCEL, .cookie = 11};

	pair_open(&p, &pair_plain, 0x10000);
	submit_recv(1, in, 100, 11);
	submit_recv(1, in, 100, 12);
	NAMED(p.bed[1].core->table.keys == 1,
	      "nothing is found by its cookie before something is cancelled");
	submit_entry(1, sqe);
	NAMED(pair_took(&p, 1, 11, -125), "an unmatched receive is cancelled");
	submit_entry(1, sqe);
	TAP(pair_none(&p, 1));
	submit_recv(2, in, 100, 11);
	submit_send(2, out, 100, 1);
	bed_write(&p.end[0], 100);
	bed_read(&p.end[1], 100);
	submit_entry(1, sqe);
	TAP(pair_none(&p, 1) && pair_run(&p) == 0);
	NAMED(pair_took(&p, 1, 11, 0), "a matched receive is not cancelled");
	TAP(pair_close(&p));
}

static struct o2g_sqe make_peek(u32 source, u64 tag, u64 ignore, u8 flags)
{
	return (struct o2g_sqe){.op = O2G_OP_PEEK,
				.flags = flags,
				.peer = source,
				.tag = tag,
				.ignore = ignore,
				.cookie = 77};
}

/* What MPI_Dist_graph_create leans on: a probe names the message that the
 * receive after it gets, also between several from one sender. */
static void peek_order(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_entry(1, make_peek(O2G_ANY_PEER, 1, 0, 0));
	TAP(pair_took(&p, 1, 77, -42));
	submit_send(1, out, 3, 1);
	submit_send(1, out, 4, 2);
	submit_send(2, out, 5, 3);
	TAP(pair_run(&p) == 0);
	submit_entry(1, make_peek(O2G_ANY_PEER, 1, 0, 0));
	TAP(pair_took(&p, 1, 77, 0) && p.cqe.length == 3 && p.cqe.peer == 0);
	submit_entry(1, make_peek(0, 0, ~0ull, 0));
	TAP(pair_took(&p, 1, 77, 0) && p.cqe.length == 3);
	submit_entry(1, make_peek(0, 2, 0, 0));
	TAP(pair_took(&p, 1, 77, 0) && p.cqe.length == 5);
	submit_recv(1, in, 10, 11);
	NAMED(pair_took(&p, 1, 11, 0) && p.cqe.length == 3,
	      "a receive gets the message that a peek reported");
	submit_entry(1, make_peek(O2G_ANY_PEER, 1, 0, 0));
	TAP(pair_took(&p, 1, 77, 0) && p.cqe.length == 4);
	TAP(pair_close(&p));
}

static void test_claim(u64 length)
{
	struct o2g_sqe sqe = {.op = O2G_OP_RECV,
			      .flags = O2G_SQE_CLAIMED,
			      .addr = (u64)in,
			      .length = sizeof(in),
			      .cookie = 11};

	pair_open(&p, &pair_plain, 0x10000);
	submit_send(1, out, length, 1);
	submit_send(1, out, 2, 2);
	TAP(pair_run(&p) == 0);
	submit_entry(1, make_peek(0, 1, 0, O2G_SQE_CLAIM));
	TAP(pair_took(&p, 1, 77, 0) && p.cqe.length == length);
	sqe.data = p.cqe.where;
	submit_recv(1, in, 10, 12);
	TAP(pair_took(&p, 1, 12, 0) && p.cqe.length == 2);
	submit_entry(1, sqe);
	TAP(pair_run(&p) == 0);
	NAMED(pair_took(&p, 1, 11, 0) && p.cqe.length == length,
	      "a claimed message is received by its handle");
	submit_entry(1, sqe);
	NAMED(pair_took(&p, 1, 11, -2), "a handle is valid once");
	TAP(pair_close(&p));
}

static void test_discard(u64 length)
{
	struct o2g_sqe sqe = {.op = O2G_OP_DISCARD, .cookie = 3};

	pair_open(&p, &pair_plain, 0x10000);
	submit_send(1, out, length, 1);
	submit_send(1, out, length, 2);
	TAP(pair_run(&p) == 0);
	submit_entry(1, make_peek(0, 1, 0, O2G_SQE_DISCARD));
	TAP(pair_took(&p, 1, 77, 0));
	submit_entry(1, make_peek(0, 1, 0, O2G_SQE_CLAIM));
	TAP(pair_took(&p, 1, 77, 0));
	sqe.data = p.cqe.where;
	submit_entry(1, sqe);
	TAP(pair_none(&p, 1) && pair_run(&p) == 0);
	NAMED(pair_took(&p, 0, 1, 0) && pair_took(&p, 0, 2, 0),
	      "sends of discarded messages are completed");
	TAP(p.bed[1].core->messages.used == 0 && p.bed[1].core->charged == 0);
	submit_entry(1, sqe);
	TAP(pair_took(&p, 1, 3, -2));
	TAP(pair_close(&p));
}

static void test_multi(void)
{
	const struct o2g_sqe sqe = {.op = O2G_OP_RECV,
				    .flags = O2G_SQE_MULTI,
				    .addr = (u64)in,
				    .length = 1000,
				    .data = 200,
				    .tag = 1,
				    .cookie = 11};

	pair_open(&p, &pair_plain, 0x10000);
	submit_send(1, out, 300, 1);
	TAP(pair_run(&p) == 0);
	submit_entry(1, sqe);
	TAP(pair_took(&p, 1, 11, 0) && p.cqe.flags & O2G_CQE_MORE &&
	    host_pointer(p.cqe.where) == in);
	submit_send(1, out, 501, 2);
	submit_send(1, out, 50, 3);
	TAP(pair_run(&p) == 0);
	TAP(pair_took(&p, 1, 11, 0) && !(p.cqe.flags & O2G_CQE_MORE) &&
	    host_pointer(p.cqe.where) == in + 300);
	NAMED(pair_none(&p, 1) && p.bed[1].core->counts.unmatched == 1,
	      "a multi-receive ends when too little is left");
	TAP(pair_close(&p));
}

static void test_self(void)
{
	struct o2g_cqe *cqe = &p.cqe;

	pair_open(&p, &pair_plain, 0x10000);
	bed_send(&p.bed[0], 0, 1, out + 1, 100, 1);
	NAMED(pair_took(&p, 0, 1, 0), "a small message to oneself is copied");
	bed_send(&p.bed[0], 0, 1, out, 100000, 2);
	TAP(pair_none(&p, 0));
	bed_recv(&p.bed[0], 0, 1, 0, in, 100, 11);
	TAP(pair_took(&p, 0, 11, 0) && !memcmp(in, out + 1, 100));
	bed_recv(&p.bed[0], O2G_ANY_PEER, 1, 0, in, sizeof(in), 12);
	TAP(pair_took(&p, 0, 2, 0));
	NAMED(pair_took(&p, 0, 12, 0) && cqe->length == 100000 &&
		      !memcmp(in, out, 100000),
	      "a large message to oneself is matched in its buffer");
	bed_recv(&p.bed[0], 0, 1, 0, in, 100, 13);
	bed_send(&p.bed[0], 0, 1, out, 100000, 3);
	TAP(pair_took(&p, 0, 3, 0) && pair_took(&p, 0, 13, -90));
	bed_send(&p.bed[0], 0, 1, out, 100000, 4);
	submit_entry(0, make_peek(0, 1, 0, O2G_SQE_DISCARD));
	TAP(pair_took(&p, 0, 4, 0) && pair_took(&p, 0, 77, 0));
	TAP(pair_close(&p));
}

static void test_naming(void)
{
	struct bed_end *end = &p.end[1];

	pair_open_unnamed(&p);
	for (u64 i = 1; i <= 4; i++)
		submit_send(i, out, i, i);
	TAP(pair_run(&p) == 0);
	submit_recv(3, in, 100, 13);
	submit_recv(2, in, 100, 12);
	TAP(pair_none(&p, 1));
	bed_recv(&p.bed[1], O2G_ANY_PEER, 1, 0, in, 100, 11);
	NAMED(pair_took(&p, 1, 11, 0) && p.cqe.peer == O2G_NO_PEER,
	      "a message of a peer not yet added matches a receive from any "
	      "peer");
	bed_send(&p.bed[1], 0, 9, out, 1, 99);
	TAP(pair_run(&p) == 0 && pair_none(&p, 1));
	TAP(o2g_conn_name(end->conn, 0) == 0);
	TAP(pair_took(&p, 1, 12, 0) && p.cqe.peer == 0);
	NAMED(pair_took(&p, 1, 13, 0) && p.cqe.length == 3,
	      "directed receives match when the peer is added");
	TAP(pair_run(&p) == 0 && pair_took(&p, 1, 99, 0));
	submit_recv(4, in, 100, 14);
	TAP(pair_took(&p, 1, 14, 0));
	TAP(o2g_conn_name(end->conn, 0) == -17);
	TAP(pair_close(&p));
}

static void test_death(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_send(1, out, 50, 1);
	submit_send(2, out, 9000, 2);
	TAP(pair_run(&p) == 0);
	submit_send(3, out, 200000, 3);
	submit_send(4, out, 9000, 4);
	submit_recv(4, in, 9000, 14);
	bed_write(&p.end[0], 6000);
	bed_read(&p.end[1], 6000);
	bed_recv(&p.bed[1], O2G_ANY_PEER, 8, 0, in, 1, 18);
	submit_recv(9, in, 1, 19);
	bed_send(&p.bed[1], 0, 1, out, 10, 21);
	bed_end(&p.end[1], 0);
	TAP(pair_took(&p, 1, 14, -104));
	TAP(pair_took(&p, 1, 21, -104) && pair_took(&p, 1, 19, -104));
	NAMED(pair_none(&p, 1),
	      "receives from any peer survive a peer's death");
	submit_recv(1, in, 50, 11);
	NAMED(pair_took(&p, 1, 11, 0),
	      "a complete message survives its sender's death");
	submit_recv(3, in, 50, 13);
	TAP(pair_took(&p, 1, 13, -104));
	bed_send(&p.bed[1], 0, 1, out, 10, 22);
	TAP(pair_took(&p, 1, 22, -104));
	submit_entry(1, make_peek(0, 5, 0, 0));
	TAP(pair_took(&p, 1, 77, -104));
	bed_end(&p.end[0], -104);
	TAP(pair_took(&p, 0, 1, 0) && pair_took(&p, 0, 2, 0));
	TAP(!pair_none(&p, 0) && p.cqe.status == -104);
	TAP(pair_close(&p));
}

static void clean_end(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	submit_recv(5, in, 1, 15);
	submit_send(1, out, 200000, 1);
	o2g_conn_bye(p.end[0].conn);
	submit_send(2, out, 1, 2);
	TAP(pair_took(&p, 0, 2, -108));
	TAP(pair_run(&p) == 0 && !o2g_conn_bye_sent(p.end[0].conn));
	submit_recv(1, in, sizeof(in), 11);
	TAP(pair_run(&p) == 0 && o2g_conn_bye_sent(p.end[0].conn));
	TAP(o2g_conn_bye_received(p.end[1].conn));
	TAP(pair_took(&p, 1, 11, 0));
	bed_end(&p.end[1], 0);
	NAMED(pair_took(&p, 1, 15, -108), "an end after BYE is no failure");
	TAP(pair_close(&p));
}

static void test_unreachable(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	o2g_core_peer(p.bed[0].core, 2, 0);
	bed_send(&p.bed[0], 2, 1, out, 10, 1);
	bed_recv(&p.bed[0], 2, 1, 0, in, 10, 2);
	bed_send(&p.bed[0], 3, 1, out, 10, 3);
	TAP(pair_took(&p, 0, 3, -113));
	o2g_core_lost(p.bed[0].core, 2, -110);
	TAP(pair_took(&p, 0, 1, -110) && pair_took(&p, 0, 2, -110));
	bed_recv(&p.bed[0], 2, 1, 0, in, 10, 4);
	NAMED(pair_took(&p, 0, 4, -110),
	      "a dead peer fails the operations that name it");
	TAP(pair_close(&p));
}

static void submit_receives(u64 count)
{
	struct o2g_sqe sqe = {.op = O2G_OP_RECV,
			      .peer = O2G_ANY_PEER,
			      .context = 1,
			      .addr = (u64)in,
			      .length = 10};

	for (; sqe.cookie < count; sqe.cookie++, sqe.tag++)
		o2g_ring_submit(p.bed[1].area, &sqe);
}

static void test_batches(void)
{
	struct bed_options bounded = pair_plain;
	struct o2g_core *core;

	bounded.batch = 8;
	pair_open(&p, &bounded, 0x100000);
	core = p.bed[1].core;
	submit_receives(20);
	submit_send(19, out, 10, 100);
	TAP(pair_run(&p) == 0);
	NAMED(core->counts.unmatched == 1 && core->counts.posted == 8 &&
		      o2g_core_more(core),
	      "an arrival reads no more than a batch of submissions");
	TAP(o2g_core_consume(core) == 8 && o2g_core_more(core));
	TAP(o2g_core_consume(core) == 4 && !o2g_core_more(core));
	NAMED(pair_took(&p, 1, 19, 0) && p.cqe.tag == 19,
	      "a submission left unread is matched when it is read");
	TAP(pair_close(&p));
}

/* More receives than a core has places for from the beginning. */
static void test_wait_for_memory(void)
{
	struct o2g_core *core;

	pair_open(&p, &pair_plain, 0x100000);
	core = p.bed[1].core;
	o2g_core_wait_memory(core, 1);
	submit_receives(40);
	p.bed[1].fail_after = 1;
	TAP(o2g_core_consume(core) == 32 && !o2g_core_more(core));
	NAMED(core->counts.posted == 32 && !pair_took(&p, 1, 32, -LINUX_ENOMEM),
	      "a receive waits in the ring for memory if it may");
	p.bed[1].fail_after = 0;
	TAP(o2g_core_consume(core) == 8 && core->counts.posted == 40);
	TAP(pair_close(&p));
	pair_open(&p, &pair_plain, 0x100000);
	submit_receives(33);
	p.bed[1].fail_after = 1;
	o2g_core_consume(p.bed[1].core);
	NAMED(pair_took(&p, 1, 32, -LINUX_ENOMEM),
	      "a receive that may not wait for memory is refused");
	p.bed[1].fail_after = 0;
	TAP(pair_close(&p));
}

static void full_ring(void)
{
	struct bed_options small = pair_plain;
	u64 got = 0;

	small.cq = 16;
	pair_open(&p, &small, 0x100000);
	for (u64 i = 0; i < 100; i++) {
		submit_recv(i, in, 10, i);
		submit_send(i, out, 10, i);
	}
	TAP(pair_run(&p) == 0);
	TAP(p.bed[1].area->sq.flags == (O2G_NEED_KICK | O2G_NEED_ROOM));
	while (pair_took(&p, 1, got, 0))
		got++;
	NAMED(got == 100, "completions wait in order for a full ring");
	TAP(p.bed[1].area->sq.flags == 0);
	TAP(pair_close(&p));
}

/* Room enough, but not in one piece. */
static void test_fragments(void)
{
	const u64 most = pair_slab.slab / 1024;
	struct o2g_sqe back = {.op = O2G_OP_RELEASE};
	u64 sent = 0, taken = 0;

	pair_open(&p, &pair_slab, 1 << 20);
	for (u64 i = 0; i < most; i++) {
		submit_send(i, out, 1000, 1);
		sent += pair_run(&p) == 0 && pair_took(&p, 0, 1, 0);
	}
	for (u64 i = 0; i < most; i += 2) {
		submit_recv(i, in, 1000, 11);
		taken += pair_took(&p, 1, 11, 0) && p.cqe.flags & O2G_CQE_SLAB;
		back.data = p.cqe.where;
		submit_entry(1, back);
	}
	TAP(sent == most && taken == most / 2);
	submit_send(most, out + 1, 5000, 1);
	TAP(pair_run(&p) == 0 &&
	    p.bed[1].core->counts.unmatched == most / 2 + 1);
	memset(in, 0, 5000);
	submit_recv(most, in, 5000, 11);
	NAMED(pair_took(&p, 1, 11, 0) && !(p.cqe.flags & O2G_CQE_SLAB) &&
		      !memcmp(in, out + 1, 5000),
	      "a long message arrives although the slab is fragmented");
	TAP(pair_close(&p));
}

static void test_slab(void)
{
	struct o2g_sqe sqe = {.op = O2G_OP_RELEASE, .cookie = 5};

	pair_open(&p, &pair_slab, 0x10000);
	memset(in, 0, 1000);
	submit_recv(1, in, 1000, 11);
	submit_send(1, out + 3, 1000, 1);
	TAP(pair_run(&p) == 0);
	TAP(pair_took(&p, 1, 11, 0) && p.cqe.flags & O2G_CQE_SLAB);
	NAMED(!memcmp((u8 *)p.bed[1].area + p.cqe.where, out + 3, 1000) &&
		      p.cqe.total == (u64)in,
	      "a small body is stored in the slab, with its receive's buffer "
	      "named");
	sqe.data = p.cqe.where;
	submit_entry(1, sqe);
	TAP(pair_none(&p, 1));
	submit_entry(1, sqe);
	NAMED(pair_took(&p, 1, 5, -2), "a slab body is released once");
	submit_send(7, out, 1, 1);
	TAP(pair_run(&p) == 0 && o2g_ring_kicks(p.bed[1].area));
	NAMED(!o2g_ring_releases(p.bed[1].area),
	      "a buffered message asks for receives, not for releases");
	submit_recv(1, in, 2000, 11);
	submit_send(1, out, 2000, 1);
	TAP(pair_run(&p) == 0);
	TAP(pair_took(&p, 1, 11, 0) && !(p.cqe.flags & O2G_CQE_SLAB));
	for (int before = 0; before < 2; before++) {
		memset(in, 0, 500);
		if (before)
			submit_recv(1, in, 500, 11);
		submit_send(1, out, 1000, 1);
		TAP(pair_run(&p) == 0);
		if (!before)
			submit_recv(1, in, 500, 11);
		NAMED(pair_took(&p, 1, 11, -90) && p.cqe.total == 1000 &&
			      !(p.cqe.flags & O2G_CQE_SLAB) &&
			      !memcmp(in, out, 500),
		      "a truncated small body is copied to its receive");
	}
	TAP(pair_close(&p));
}

/* Small messages go out before the pieces of a long one, but after some of
 * them a piece has its turn. */
static void test_turns(void)
{
	struct bed_pipe *pipe;
	struct o2g_frame frame;
	u32 run = 0, longest = 0, pieces = 0, small = 0;

	pair_open(&p, &pair_plain, 0x1000000);
	pipe = p.end[0].out;
	submit_send(1, out, sizeof(out), 1);
	bed_write(&p.end[0], 1);
	for (u64 i = 0; i < 60; i++)
		submit_send(2, out, 16, 2);
	while (bed_write(&p.end[0], 1 << 20))
		;
	while (small < 60) {
		memcpy(&frame, pipe->byte + pipe->head, sizeof(frame));
		pipe->head += O2G_FRAME_SIZE + frame.body;
		small += frame.length == 16;
		pieces += frame.type == O2G_PIECE;
		run = frame.length == 16 ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	pipe->head = pipe->tail;
	NAMED(longest == O2G_BURST && pieces < 7,
	      "small messages and pieces take turns");
	TAP(pair_close(&p));
}

static void test_wakes(void)
{
	pair_open(&p, &pair_plain, 0x10000);
	p.bed[0].area->cq.flags = O2G_NEED_WAKE;
	TAP(!o2g_core_wakes(p.bed[0].core));
	submit_entry(0, make_peek(1, 1, 0, 0));
	TAP(o2g_core_wakes(p.bed[0].core) && !o2g_core_wakes(p.bed[0].core));
	p.bed[0].area->cq.flags = 0;
	submit_entry(0, make_peek(1, 1, 0, 0));
	TAP(!o2g_core_wakes(p.bed[0].core));
	TAP(pair_close(&p));
}

static void test_hash(void)
{
	struct o2g_hash_key key = {
		{0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull}};

	NAMED(o2g_hash_words(&key, key.word, 0, 2, 4) ==
			      0x726fdb47dd0e0e31ull &&
		      o2g_hash_words(&key, key.word, 1, 2, 4) ==
			      0x93f5f5799a932462ull &&
		      o2g_hash_words(&key, key.word, 2, 2, 4) ==
			      0x3f2acc7f57c29bdbull,
	      "SipHash gives the published values");
	/* Bytes 0 to 19, computed from the description by another program. */
	NAMED(o2g_hash_short(&key, key.word[0], key.word[1], 0x13121110) ==
		      0xc0dc2f46a6cce040ull,
	      "SipHash-1-3 of 20 bytes");
}

static int check_ok(int ok, const char *name)
{
	return tap_ok(ok, "%s", name);
}

static void random_worlds(void)
{
	struct random_counts counts = {0};
	const u32 bad = random_run(60, 30000, &counts);

	NAMED(!bad, "matching and bodies agree with the reference");
	NAMED(counts.delivered >= 100000, "100,000 messages were compared");
	NAMED(counts.whole >= 4000, "4,000 of them lay whole");
	NAMED(counts.full && counts.requested && counts.waited,
	      "full rings, requests and empty credit occurred");
	printf("# %u messages, %llu whole, %llu full rings, %llu requests, "
	       "%llu waits\n",
	       counts.delivered, counts.whole, counts.full, counts.requested,
	       counts.waited);
}

int main(void)
{
	for (u32 i = 0; i < sizeof(out); i++)
		out[i] = (u8)(i * 7 + i / 251);
	test_hash();
	test_expected();
	test_unexpected();
	test_rendezvous();
	test_halfway(&pair_plain, 0);
	test_halfway(&pair_plain, 1);
	test_halfway(&pair_slab, 0);
	test_offered(&pair_plain);
	test_offered(&pair_slab);
	test_truncation();
	low_traffic();
	test_write_off();
	test_cancel();
	peek_order();
	test_claim(3);
	test_claim(200000);
	test_discard(3);
	test_discard(200000);
	test_multi();
	test_self();
	test_naming();
	test_death();
	clean_end();
	test_unreachable();
	test_batches();
	test_wait_for_memory();
	full_ring();
	test_slab();
	test_fragments();
	test_turns();
	test_wakes();
	hostile_run(check_ok);
	cost_run(check_ok);
	bounds_run(check_ok);
	life_run(check_ok);
	rma_run(check_ok);
	arithmetic_run(check_ok);
	atomic_run(check_ok);
	invite_run(check_ok);
	state_run(check_ok);
	edge_run(check_ok);
	whole_run(check_ok);
	frames_run(check_ok);
	store_run(check_ok);
	record_run(check_ok);
	random_worlds();
	return tap_done();
}
