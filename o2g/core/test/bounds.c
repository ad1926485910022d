/* SPDX-License-Identifier: MIT */
/*
 * That no single piece of work grows with what a program or its peer has
 * piled up: an engine in a kernel does each with softirqs off.
 */
#include <stdio.h>

#include "pair.h"
#include "suite.h"

#define MANY 5000u
#define AT_ONCE 256u /* more than any piece of work here may do */
#define CREDIT (MANY * 2 * O2G_MESSAGE_COST)

static struct bed bed;
static struct bed_end end;
static struct o2g_conn *conn;
static u8 body[8];

static void open_with(u32 cq, u32 batch, u64 write_off)
{
	const struct bed_options options = {.sq = 1024,
					    .cq = cq,
					    .postings = 100000,
					    .peers = 4,
					    .unexpected = 1ull << 30,
					    .write_off = write_off,
					    .batch = batch};

	bed_open(&bed, &options);
	for (u32 i = 0; i < 3; i++)
		o2g_core_peer(bed.core, i, i == 0);
	end = (struct bed_end){.bed = &bed};
	if (o2g_conn_attach(bed.core, 1, CREDIT, CREDIT, &end, &conn))
		abort();
}

static void open_many(u32 batch, u64 write_off)
{
	open_with(0x10000, batch, write_off);
}

static int receive_frame(struct o2g_frame frame)
{
	struct o2g_piece piece;

	if (o2g_rx_want(conn, &piece) || piece.length != sizeof(frame))
		return 0;
	memcpy(piece.core, &frame, sizeof(frame));
	return !o2g_rx_done(conn, sizeof(frame));
}

/* A message of which nothing but the header comes. */
static struct o2g_frame frame_begun(u32 id, u64 length)
{
	return (struct o2g_frame){.type = O2G_MESSAGE,
				  .id = id,
				  .context = 1,
				  .tag = 5,
				  .length = length};
}

/* All credit in messages that never come whole. */
static void test_unfinished(check_fn *check)
{
	u64 before, looked = 0;
	u32 id = 0, said = 0;

	open_many(0, 1ull << 30);
	while (bed.core->counts.unmatched < MANY)
		if (!receive_frame(frame_begun(++id, 1)))
			abort();
	receive_frame(
		frame_begun(++id, CREDIT - conn->spent_in - O2G_MESSAGE_COST));
	for (u32 i = 0; i < MANY; i++) {
		before = bed.core->scanned;
		said += receive_frame((struct o2g_frame){.type = O2G_CREDIT});
		if (bed.core->scanned - before > looked)
			looked = bed.core->scanned - before;
	}
	check(said == MANY && looked == 0 && conn->spent_in == CREDIT,
	      "unfinished messages are not scanned for credit");
	o2g_conn_end(conn, -104);
	check(!bed_close(&bed), "memory");
}

/* Messages that were held while credit could not go back, and then could. */
static void credit_written_off(check_fn *check)
{
	const u32 most = CREDIT / O2G_MESSAGE_COST;
	u64 before;

	open_many(0, 1);
	for (u32 i = 0; i < most; i++)
		if (!receive_frame(frame_begun(i + 1, 0)))
			abort();
	bed.core->limits.write_off = bed.core->charged;
	receive_frame((struct o2g_frame){.type = O2G_CREDIT});
	check(!conn->owed, "at the limit no credit goes back");
	bed.core->limits.write_off = bed.core->charged + 1;
	before = bed.core->scanned;
	receive_frame((struct o2g_frame){.type = O2G_CREDIT});
	check(conn->owed > 0 && bed.core->scanned - before <= AT_ONCE,
	      "credit is returned for a few messages at a time");
	o2g_conn_end(conn, -104);
	check(!bed_close(&bed), "memory");
}

/* ---- ends ---- */

static u32 over, failed;

/* Does one piece of the rest; how many operations and messages went. */
static u32 consume_step(void)
{
	const u32 before = bed.core->ops.used + bed.core->messages.used;
	struct o2g_cqe cqe;

	if (o2g_core_consume(bed.core) < 0)
		abort();
	while (bed_take(&bed, &cqe)) {
		over++;
		failed += cqe.status == -104;
	}
	return before - (bed.core->ops.used + bed.core->messages.used);
}

/* Sends, receives and unfinished messages of one peer. */
static void pile_up(void)
{
	over = failed = 0;
	for (u32 i = 0; i < MANY; i++) {
		bed_recv(&bed, 1, 6, 0, body, sizeof(body), i);
		bed_send(&bed, 1, 6, body, sizeof(body), i);
		if (!receive_frame(frame_begun(i + 1, 1)))
			abort();
	}
}

/* Most of it is left after the first step; the others are as small. */
static void in_steps(check_fn *check, const char *name)
{
	const u32 left = bed.core->ops.used + bed.core->messages.used;
	u32 steps = 0, most = 0, n;

	while (o2g_core_more(bed.core)) {
		n = consume_step();
		most = n > most ? n : most;
		steps++;
	}
	printf("# %u operations fail in %u steps, %u at a time\n", failed,
	       steps, most);
	check(left > 2 * MANY - AT_ONCE && most <= AT_ONCE, name);
	check(over == 2 * MANY && failed == 2 * MANY,
	      "every operation that names the peer fails");
}

static void end_of_stream(check_fn *check)
{
	open_many(64, 0);
	pile_up();
	bed_recv(&bed, O2G_ANY_PEER, 7, 0, body, sizeof(body), MANY);
	o2g_conn_end(conn, -104);
	in_steps(check, "a stream's end takes small steps");
	check(bed.core->counts.posted == 1 && !bed_close(&bed), "memory");
}

/* One that the program gives up. */
static void end_of_peer(check_fn *check)
{
	open_many(64, 0);
	over = failed = 0;
	for (u32 i = 0; i < MANY; i++) {
		bed_recv(&bed, 2, 6, 0, body, sizeof(body), i);
		bed_send(&bed, 2, 6, body, sizeof(body), i);
	}
	o2g_core_lost(bed.core, 2, -104);
	in_steps(check, "giving up a peer takes small steps");
	o2g_conn_end(conn, 0);
	check(!bed_close(&bed), "memory");
}

/* What is about to vanish is not received meanwhile, and nothing is left when
 * the core goes in the middle of it. */
static void test_meanwhile(check_fn *check)
{
	int n = 0;

	open_many(64, 0);
	pile_up();
	o2g_conn_end(conn, -104);
	bed_recv(&bed, O2G_ANY_PEER, 5, 0, body, sizeof(body), 77);
	while (o2g_core_more(bed.core))
		n += o2g_core_consume(bed.core);
	check(n == 1, "no submission is consumed while a connection ends");
	check(bed.core->counts.posted == 1 && bed.core->counts.unmatched == 0,
	      "a receive from any peer gets no message of a connection that "
	      "ends");
	check(!bed_close(&bed), "memory");
	open_many(64, 0);
	pile_up();
	o2g_conn_end(conn, -104);
	check(o2g_core_more(bed.core) && !bed_close(&bed),
	      "a core is freed while a connection ends");
}

/* ---- completions that waited ---- */

/* The program has seen all that is in its ring. */
static void make_room(void)
{
	bed.area->cq.head = bed.area->cq.tail;
}

/* Receives that fail at once, far more than the ring has room for. */
static void wait_for_room(void)
{
	open_with(1024, 64, 0);
	o2g_core_lost(bed.core, 2, -104);
	for (u32 i = 0; i < MANY; i++)
		bed_recv(&bed, 2, 6, 0, body, sizeof(body), i);
}

static void test_flushed(check_fn *check)
{
	const struct o2g_sqe late = {
		.op = O2G_OP_RECV, .peer = 2, .cookie = MANY};
	struct o2g_cqe cqe;
	u32 before, n;

	wait_for_room();
	check(!o2g_core_more(bed.core),
	      "a full completion ring leaves nothing to do");
	before = bed.area->cq.tail;
	make_room();
	o2g_ring_submit(bed.area, &late);
	receive_frame(frame_begun(1, 0));
	n = bed.area->cq.tail - before;
	check(n > 0 && n <= AT_ONCE && o2g_core_more(bed.core) &&
		      bed.area->sq.head == MANY,
	      "an arrival writes a few of the waiting completions");
	while (o2g_core_more(bed.core))
		o2g_core_consume(bed.core);
	check(bed.area->cq.tail - before == 1024,
	      "progress fills the completion ring");
	for (n = 1024; bed_take(&bed, &cqe) && cqe.cookie == n;)
		n++;
	check(n == MANY + 1, "all completions come, in order");
	o2g_conn_end(conn, -104);
	check(!bed_close(&bed), "memory");
}

/* The program empties its ring just before it is asked to kick for that. */
static void empty_ring(void *ctx)
{
	(void)ctx;
	if (!list_empty(&bed.core->backlog))
		make_room();
}

static void flush_limited(check_fn *check)
{
	open_with(16, 64, 0);
	bed.core->host.completed = empty_ring;
	for (u32 i = 0; i < 17; i++)
		bed_recv(&bed, 1, 5, 0, body, sizeof(body), i);
	for (u32 i = 0; i < 17; i++)
		receive_frame(frame_begun(i + 1, 0));
	check(!list_empty(&bed.core->backlog) && o2g_core_more(bed.core),
	      "space in the ring is noticed even if made before the flag");
	o2g_core_consume(bed.core);
	check(list_empty(&bed.core->backlog) && !o2g_core_more(bed.core),
	      "space in the ring is used");
	o2g_conn_end(conn, -104);
	check(!bed_close(&bed), "memory");
}

/* ---- a receive of many messages ---- */

static int send_numbered(u32 number, u64 tag)
{
	struct o2g_frame frame = frame_begun(number + 1, 0);

	frame.tag = tag;
	frame.flags = O2G_FRAME_DATA;
	frame.data = number;
	return receive_frame(frame);
}

/* Empty messages, and a receive that they never fill. */
static void receive_many(void)
{
	const struct o2g_sqe sqe = {.op = O2G_OP_RECV,
				    .flags = O2G_SQE_MULTI,
				    .peer = O2G_ANY_PEER,
				    .context = 1,
				    .ignore = ~0ull,
				    .addr = (u64)body,
				    .length = 1,
				    .cookie = 2};

	open_many(64, 0);
	bed_recv(&bed, O2G_ANY_PEER, 9, 0, body, sizeof(body), 1);
	for (u32 i = 0; i < MANY; i++)
		if (!send_numbered(i, 5))
			abort();
	bed_submit(&bed, &sqe);
}

/* All in their order, then its end; and the last one for the receive that was
 * posted before it. */
static int arrived_in_order(u32 count)
{
	struct o2g_cqe cqe;
	u32 n = 0, earlier = 0;
	int status = 0;

	while (!status && bed_take(&bed, &cqe)) {
		status = cqe.status;
		earlier += cqe.cookie == 1 && cqe.data == count;
		n += cqe.cookie == 2 && !status && cqe.data == n;
	}
	return n == count && earlier == 1 && status == -LINUX_ECANCELED;
}

static void many_received(check_fn *check)
{
	const struct o2g_sqe cancel = {.op = O2G_OP_CANCEL, .cookie = 2};
	u64 before, most;

	receive_many();
	most = MANY - bed.core->counts.unmatched;
	send_numbered(MANY, 5);
	send_numbered(MANY + 1, 9);
	o2g_ring_submit(bed.area, &cancel);
	while (o2g_core_more(bed.core)) {
		before = bed.core->counts.unmatched;
		o2g_core_consume(bed.core);
		if (before - bed.core->counts.unmatched > most)
			most = before - bed.core->counts.unmatched;
	}
	check(most > 0 && most <= AT_ONCE && !bed.core->counts.unmatched,
	      "a multi-receive takes a few of the messages at a time");
	check(arrived_in_order(MANY + 1), "a multi-receive keeps the order of "
					  "messages that come meanwhile");
	o2g_conn_end(conn, -104);
	check(!bed_close(&bed), "memory");
	receive_many();
	check(bed.core->searching && !bed_close(&bed),
	      "a core is freed during a multi-receive");
}

void bounds_run(check_fn *check)
{
	test_unfinished(check);
	credit_written_off(check);
	end_of_stream(check);
	end_of_peer(check);
	test_meanwhile(check);
	test_flushed(check);
	flush_limited(check);
	many_received(check);
}
