/* SPDX-License-Identifier: MIT */
/*
 * Three endpoints that do whatever MPI allows, in any order, over pipes that
 * move any number of bytes at a time, compared with the reference. Every
 * message has a number, which travels as its data; what the reference pairs
 * with it must be what the core completes.
 */
#include <stdio.h>

#include "bed.h"
#include "model.h"
#include "suite.h"

#define ENDS 3
#define OPS_MAX 40000
#define MESSAGES_MAX 20000
#define IN_FLIGHT 200

enum { RECV = 1, SEND, PEEK, CANCELLED };

struct op {
	u8 kind, over, cancelled, last, owned;
	u32 who;
	u8 *buffer;
	u64 length;
	s64 expect; /* peek: message, -1: none */
	u8 flags;
	u32 given, delivered;
};

struct note { /* about a message */
	u32 from, to, context;
	u64 tag, length, offset;
	u64 cookie; /* of the receive that got it, + 1 */
	u8 delivered, discarded, claimed;
};

struct world {
	struct bed bed[ENDS];
	struct bed_end pair[ENDS][2]; /* pair i joins i and (i + 1) % ENDS */
	u8 named[ENDS][2];
	struct model model[ENDS];
	struct op op[OPS_MAX];
	struct note note[MESSAGES_MAX];
	u32 ops, notes, flying[ENDS];
	struct o2g_sqe pending[ENDS][65536];
	u32 read[ENDS], written[ENDS];
	u8 owes_kick[ENDS]; /* a program that is between entry and kick */
	u64 seed;
	u32 delivered, bad;
	int broken; /* connections were cut: the reference knows no more */
	u64 full;
	const char *why;
};

static struct world *world;

static u32 random_below(u32 below)
{
	world->seed ^= world->seed << 13;
	world->seed ^= world->seed >> 7;
	world->seed ^= world->seed << 17;
	return (u32)((world->seed * 0x2545f4914f6cdd1dull) >> 33) % below;
}

static void expect_true(int ok, const char *why)
{
	if (ok)
		return;
	if (!world->bad++)
		world->why = why;
}

static u8 byte_of(u64 id, u64 at)
{
	return (u8)(id * 131 + at * 7 + (at >> 8));
}

static u64 some_length(void)
{
	const u32 kind = random_below(100);

	if (kind < 20)
		return 0;
	if (kind < 80)
		return random_below(300);
	if (kind < 95)
		return random_below(5000);
	return kind < 99 ? random_below(40000) : random_below(300000);
}

static u32 some_context(void)
{
	return 1 + random_below(2);
}

static u64 some_ignore(void)
{
	const u32 kind = random_below(10);

	if (kind < 6)
		return 0;
	return kind < 9 ? ~0ull : 1ull << random_below(14);
}

/* What the reference makes of a submission, when the core has read it. */
static void apply_send(u32 who, const struct o2g_sqe *sqe)
{
	const struct model_message message = {
		.source = sqe->peer,
		.from = sqe->peer,
		.context = sqe->context,
		.tag = sqe->tag,
		.length = sqe->length,
		.id = sqe->data,
	};

	if (sqe->peer == who)
		model_arrive(&world->model[who], &message);
}

static void apply_peek(u32 who, const struct o2g_sqe *sqe,
		       const struct model_receive *receive)
{
	struct model *model = &world->model[who];
	const int place = model_find(model, receive);
	struct op *op = &world->op[sqe->cookie];
	struct note *note;

	op->expect = place < 0 ? -1 : (s64)model->message[place].id;
	if (place < 0)
		return;
	note = &world->note[op->expect];
	note->discarded |= !!(sqe->flags & O2G_SQE_DISCARD);
	note->claimed |= !!(sqe->flags & O2G_SQE_CLAIM);
	if (sqe->flags & (O2G_SQE_DISCARD | O2G_SQE_CLAIM))
		model_remove(model, place);
}

static void note_match(void *test, u64 id, u64 cookie, u64 offset, int last)
{
	struct note *note = &world->note[id];
	struct op *op = &world->op[cookie];

	(void)test;
	note->cookie = cookie + 1;
	note->offset = offset;
	op->given++;
	op->last = (u8)last;
}

static void apply_entry(u32 who, const struct o2g_sqe *sqe)
{
	const struct model_receive receive = {
		.source = sqe->peer,
		.context = sqe->context,
		.tag = sqe->tag,
		.ignore = sqe->ignore,
		.length = sqe->length,
		.cookie = sqe->cookie,
		.multi = sqe->flags & O2G_SQE_MULTI,
		.least_left = sqe->data ? sqe->data : 1,
	};

	switch (sqe->op) {
	case O2G_OP_SEND:
		apply_send(who, sqe);
		break;
	case O2G_OP_RECV:
		if (sqe->flags & O2G_SQE_CLAIMED)
			note_match(0, (u64)world->op[sqe->cookie].expect,
				   sqe->cookie, 0, 1);
		else
			model_post(&world->model[who], &receive);
		break;
	case O2G_OP_CANCEL:
		world->op[sqe->cookie].cancelled |=
			model_cancel(&world->model[who], sqe->cookie);
		break;
	case O2G_OP_PEEK:
		apply_peek(who, sqe, &receive);
		break;
	}
}

static void sync_model(u32 who)
{
	const u32 head = world->bed[who].area->sq.head;

	if (world->broken)
		world->read[who] = head;
	while (world->read[who] != head)
		apply_entry(who,
			    &world->pending[who][world->read[who]++ % 65536]);
}

static void note_arrival(struct bed_end *end)
{
	const u32 who = (u32)(end->bed - world->bed);
	const struct note *note = &world->note[end->frame.data];
	const struct model_message message = {
		.source = end->conn->peer,
		.from = note->from,
		.context = end->frame.context,
		.tag = end->frame.tag,
		.length = end->frame.length,
		.id = end->frame.data,
	};

	sync_model(who);
	if (world->broken)
		return;
	expect_true(note->to == who, "a message came to somebody else");
	model_arrive(&world->model[who], &message);
}

static void kick_end(u32 who)
{
	world->owes_kick[who] = 0;
	do {
		expect_true(o2g_core_consume(world->bed[who].core) >= 0,
			    "consume");
		sync_model(who);
	} while (o2g_core_more(world->bed[who].core));
}

static void check_completion(u32 who, const struct o2g_cqe *cqe);

static u32 read_completions(u32 who, u32 most)
{
	struct o2g_cqe cqe;
	u32 n = 0;

	while (n < most && o2g_ring_take(world->bed[who].area, &cqe)) {
		check_completion(who, &cqe);
		n++;
	}
	if (n && o2g_ring_roomy(world->bed[who].area))
		kick_end(who);
	return n;
}

/* As a program does it: kick when asked, or when it can't wait. */
static void submit_entry(u32 who, const struct o2g_sqe *sqe)
{
	struct o2g_area *area = world->bed[who].area;
	const int waits =
		(sqe->op == O2G_OP_RECV && !(sqe->flags & O2G_SQE_CLAIMED)) ||
		sqe->op == O2G_OP_RELEASE;

	if (!o2g_ring_submit(area, sqe)) {
		world->full++;
		kick_end(who);
		while (!o2g_ring_submit(area, sqe))
			read_completions(who, 8);
	}
	world->pending[who][world->written[who]++ % 65536] = *sqe;
	world->owes_kick[who] |= o2g_ring_kicks(area) || !waits;
	if (world->owes_kick[who] && !random_below(8))
		kick_end(who);
}

static struct op *op_new(u32 who, u8 kind, struct o2g_sqe *sqe)
{
	struct op *op = &world->op[world->ops];

	sqe->cookie = world->ops++;
	op->kind = kind;
	op->who = who;
	op->flags = sqe->flags;
	op->length = sqe->length;
	world->flying[who]++;
	return op;
}

static void do_send(u32 who)
{
	struct o2g_sqe sqe = {
		.op = O2G_OP_SEND,
		.flags = O2G_SQE_DATA | (random_below(4) ? 0 : O2G_SQE_QUIET),
		.peer = random_below(ENDS),
		.context = some_context(),
		.tag = random_below(5),
		.length = some_length(),
		.data = world->notes,
	};
	struct note *note = &world->note[world->notes++];
	struct op *op = op_new(who, SEND, &sqe);

	if (sqe.flags & O2G_SQE_QUIET)
		world->flying[who]--;
	note->from = who;
	note->to = sqe.peer;
	note->context = sqe.context;
	note->tag = sqe.tag;
	note->length = sqe.length;
	op->buffer = malloc(sqe.length + 1);
	for (u64 i = 0; i < sqe.length; i++)
		op->buffer[i] = byte_of(sqe.data, i);
	sqe.addr = (u64)op->buffer;
	submit_entry(who, &sqe);
}

static void do_recv(u32 who, u32 source, u64 ignore, u8 flags)
{
	struct o2g_sqe sqe = {
		.op = O2G_OP_RECV,
		.flags = flags,
		.peer = source,
		.context = some_context(),
		.tag = random_below(5),
		.ignore = ignore,
		.length = flags ? 1000 + random_below(20000) : some_length(),
		.data = flags ? random_below(3000) : 0,
	};
	struct op *op = op_new(who, RECV, &sqe);

	op->buffer = malloc(sqe.length + 1);
	sqe.addr = (u64)op->buffer;
	submit_entry(who, &sqe);
}

static u32 some_source(void)
{
	const u32 kind = random_below(ENDS + 2);

	return kind < ENDS ? kind : O2G_ANY_PEER;
}

static void do_peek(u32 who)
{
	static const u8 flags[] = {0, 0, O2G_SQE_CLAIM, O2G_SQE_DISCARD};
	struct o2g_sqe sqe = {
		.op = O2G_OP_PEEK,
		.flags = flags[random_below(4)],
		.peer = some_source(),
		.context = some_context(),
		.tag = random_below(5),
		.ignore = some_ignore(),
	};

	op_new(who, PEEK, &sqe);
	submit_entry(who, &sqe);
}

static void do_cancel(u32 who)
{
	const struct model *model = &world->model[who];
	struct o2g_sqe sqe = {.op = O2G_OP_CANCEL};

	if (!model->receives)
		return;
	sqe.cookie = model->receive[random_below(model->receives)].cookie;
	submit_entry(who, &sqe);
}

static void end_op(struct op *op)
{
	expect_true(!op->over, "an operation completed twice");
	op->over = 1;
	if (!(op->kind == SEND && op->flags & O2G_SQE_QUIET))
		world->flying[op->who]--;
	if (op->kind == SEND && op->flags & O2G_SQE_QUIET)
		return;
	free(op->buffer);
	op->buffer = 0;
}

static void release_body(u32 who, struct op *op, const struct o2g_cqe *cqe)
{
	u8 *to = (u8 *)cqe->total;
	const struct o2g_sqe sqe = {.op = O2G_OP_RELEASE, .data = cqe->where};

	expect_true(to == op->buffer + world->note[cqe->data].offset,
		    "slab body to another place");
	memcpy(to, (u8 *)world->bed[who].area + cqe->where, cqe->length);
	submit_entry(who, &sqe);
}

static void check_received(u32 who, struct op *op, const struct o2g_cqe *cqe)
{
	struct note *note = &world->note[cqe->data];
	const u64 room = op->length - note->offset;
	const u64 length = note->length < room ? note->length : room;
	const u8 *body = op->buffer + note->offset;
	const int slab = cqe->flags & O2G_CQE_SLAB;
	u64 i;

	expect_true(cqe->data < world->notes && note->to == who,
		    "not his message");
	expect_true(note->cookie == cqe->cookie + 1,
		    "not the reference's pair");
	expect_true(!note->delivered, "delivered twice");
	expect_true(cqe->length == length, "length");
	expect_true(cqe->status == (length < note->length ? -90 : 0), "status");
	expect_true(cqe->tag == note->tag && cqe->context == note->context,
		    "tag");
	expect_true(cqe->peer == note->from || cqe->peer == O2G_NO_PEER,
		    "source");
	expect_true(slab ? length == note->length : cqe->total == note->length,
		    "total");
	expect_true(slab || cqe->where == (u64)body, "place");
	if (slab)
		release_body(who, op, cqe);
	for (i = 0; i < length && body[i] == byte_of(cqe->data, i);)
		i++;
	expect_true(i == length, "body");
	note->delivered = 1;
	world->delivered++;
	op->delivered++;
	if (!(cqe->flags & O2G_CQE_MORE)) {
		expect_true(op->last && op->given == op->delivered,
			    "not the last");
		end_op(op);
	}
}

static void resolve_claim(u32 who, u64 id, u64 handle)
{
	struct o2g_sqe sqe = {.data = handle};
	struct op *op;

	if (!random_below(3)) {
		sqe.op = O2G_OP_DISCARD;
		world->note[id].discarded = 1;
		submit_entry(who, &sqe);
		return;
	}
	sqe.op = O2G_OP_RECV;
	sqe.flags = O2G_SQE_CLAIMED;
	sqe.length = some_length();
	op = op_new(who, RECV, &sqe);
	op->expect = (s64)id;
	op->buffer = malloc(sqe.length + 1);
	sqe.addr = (u64)op->buffer;
	submit_entry(who, &sqe);
}

/* After a cut: every operation ends once, however it does. */
static void complete_broken(u32 who, struct op *op, const struct o2g_cqe *cqe)
{
	struct o2g_sqe sqe = {.op = O2G_OP_RELEASE, .data = cqe->where};

	if (op->kind == RECV && cqe->flags & O2G_CQE_SLAB)
		submit_entry(who, &sqe);
	sqe.op = O2G_OP_DISCARD;
	if (op->kind == PEEK && op->flags & O2G_SQE_CLAIM && !cqe->status)
		submit_entry(who, &sqe);
	if (!(cqe->flags & O2G_CQE_MORE))
		end_op(op);
}

static void check_completion(u32 who, const struct o2g_cqe *cqe)
{
	struct op *op = &world->op[cqe->cookie];

	expect_true(cqe->cookie < world->ops && op->who == who, "cookie");
	if (world->broken) {
		complete_broken(who, op, cqe);
	} else if (op->kind == RECV && cqe->status == -125) {
		expect_true(op->cancelled, "cancelled without being asked");
		expect_true(op->given == op->delivered, "cancelled too early");
		end_op(op);
	} else if (op->kind == RECV) {
		check_received(who, op, cqe);
	} else if (op->kind == SEND) {
		expect_true(!cqe->status && cqe->op == O2G_OP_SEND, "send");
		end_op(op);
	} else {
		expect_true(cqe->status == (op->expect < 0 ? -42 : 0), "peek");
		expect_true(op->expect < 0 || cqe->data == (u64)op->expect,
			    "peek found another message");
		end_op(op);
		if (!cqe->status && op->flags & O2G_SQE_CLAIM)
			resolve_claim(who, cqe->data, cqe->where);
	}
}

static void random_op(u32 who)
{
	const u32 kind = random_below(100);

	if (world->flying[who] >= IN_FLIGHT || world->ops > OPS_MAX - 8000 ||
	    world->notes > MESSAGES_MAX - 8)
		return;
	if (kind < 45)
		do_send(who);
	else if (kind < 85)
		do_recv(who, some_source(), some_ignore(), 0);
	else if (kind < 88)
		do_recv(who, some_source(), some_ignore(), O2G_SQE_MULTI);
	else if (kind < 95)
		do_peek(who);
	else
		do_cancel(who);
}

static void name_pair(u32 i, u32 side)
{
	struct bed_end *end = &world->pair[i][side];
	const u32 who = (i + side) % ENDS, other = (i + !side) % ENDS;

	if (world->named[i][side])
		return;
	world->named[i][side] = 1;
	if (!end->conn) { /* cut before: the library says so when it names */
		o2g_core_lost(world->bed[who].core, other, -104);
		return;
	}
	/* The reference's multi-receives have all that is there at once. Here
	 * they may be on their way to a message which its name gives to a
	 * receive posted earlier. */
	if (world->bed[who].limits.batch)
		kick_end(who);
	expect_true(!o2g_conn_name(end->conn, other), "name");
	sync_model(who);
	if (!world->broken)
		model_name(&world->model[who], other, other);
}

static u64 move_bytes(u32 i, u32 side, u64 most)
{
	struct bed_end *end = &world->pair[i][side];
	const u32 who = (i + side) % ENDS;
	int wrote = bed_write(end, most), got;

	sync_model(who);
	got = bed_read(end, most);
	sync_model(who);
	if (!random_below(4))
		bed_offer(end);
	sync_model(who);
	expect_true(got >= 0 || world->broken, "the wire");
	return (u64)(wrote + (got > 0 ? got : 0));
}

static void run_copies(u32 who)
{
	bed_copies(&world->bed[who]);
	sync_model(who);
}

static void random_step(void)
{
	const u32 who = random_below(ENDS);
	const u32 kind = random_below(100);

	if (kind < 40)
		random_op(who);
	else if (kind < 90)
		move_bytes(who, random_below(2),
			   1 + random_below(random_below(2) ? 100 : 100000));
	else if (kind < 95)
		read_completions(who, random_below(20));
	else if (kind < 98)
		run_copies(who);
	else if (kind < 99 && world->owes_kick[who])
		kick_end(who);
	else
		name_pair(who, random_below(2));
}

static int to_come(u32 who)
{
	for (u32 i = 0; i < world->notes; i++)
		if (world->note[i].to == who && !world->note[i].delivered &&
		    !world->note[i].discarded)
			return 1;
	return 0;
}

static u64 settle_step(void)
{
	u64 moved = 0;

	for (u32 i = 0; i < ENDS; i++) {
		moved += move_bytes(i, 0, 1 << 20) + move_bytes(i, 1, 1 << 20);
		run_copies(i);
		if (world->owes_kick[i] || o2g_core_more(world->bed[i].core))
			kick_end(i);
		moved += read_completions(i, 1000);
	}
	return moved;
}

static void name_all(void)
{
	for (u32 i = 0; i < ENDS; i++)
		for (u32 side = 0; side < 2; side++)
			name_pair(i, side);
}

/* Receives all that is on its way, then cancels the receives left over. */
static void drain_all(void)
{
	name_all();
	for (u32 turn = 0; turn < 20000; turn++) {
		u32 waiting;

		if (settle_step())
			continue;
		waiting = 0;
		for (u32 who = 0; who < ENDS; who++) {
			waiting += to_come(who);
			if (to_come(who) && world->model[who].receives < 900)
				do_recv(who, O2G_ANY_PEER, ~0ull, 0);
		}
		if (!waiting)
			break;
	}
	for (u32 who = 0; who < ENDS; who++) {
		expect_true(!to_come(who), "a message was lost");
		for (u32 i = 0; world->model[who].receives && i < 5000; i++) {
			do_cancel(who);
			kick_end(who);
		}
	}
	while (settle_step())
		;
}

static void cut_connection(u32 i, int error)
{
	world->broken = 1;
	bed_end(&world->pair[i][0], error);
	bed_end(&world->pair[i][1], error);
	world->pair[i][0].offered = 0;
	world->pair[i][1].offered = 0;
}

/* Ends whatever is left when nobody answers any more. */
static void drain_broken(void)
{
	struct o2g_sqe sqe = {.op = O2G_OP_CANCEL};

	for (u32 i = 0; i < ENDS; i++)
		cut_connection(i, 0);
	name_all();
	while (settle_step())
		;
	for (u32 i = 0; i < world->ops; i++) {
		sqe.cookie = i;
		if (!world->op[i].over && world->op[i].kind == RECV)
			submit_entry(world->op[i].who, &sqe);
	}
	for (u32 i = 0; i < ENDS * 2 * 400; i++) {
		sqe = (struct o2g_sqe){.op = O2G_OP_PEEK,
				       .flags = O2G_SQE_DISCARD,
				       .peer = O2G_ANY_PEER,
				       .context = 1 + i / ENDS % 2,
				       .ignore = ~0ull};
		if (!world->bed[i % ENDS].core->counts.unmatched)
			continue;
		op_new(i % ENDS, PEEK, &sqe);
		submit_entry(i % ENDS, &sqe);
		settle_step();
	}
	while (settle_step())
		;
}

static void world_open(u64 seed)
{
	world->seed = seed * 0x9e3779b97f4a7c15ull + 1;
	for (u32 i = 0; i < ENDS; i++) {
		const struct bed_options options = {
			.sq = 16u << random_below(3),
			.cq = 16u << random_below(3),
			.postings = 4096,
			.peers = ENDS,
			.slab_message =
				random_below(2) ? 0 : 256 + random_below(4096),
			.slab = 0x10000u << random_below(5),
			.outbox = 4096,
			.unexpected = 0x40000u << random_below(6),
			.write_off = random_below(2)
					     ? 0x40000u << random_below(4)
					     : 0,
			.batch = random_below(2) ? 1 + random_below(16) : 0,
			.whole = !!random_below(2),
			.light_hash = !!random_below(2),
		};

		bed_open(&world->bed[i], &options);
		world->bed[i].put_off = random_below(2);
		world->model[i].matched = note_match;
		for (u32 peer = 0; peer < ENDS; peer++)
			o2g_core_peer(world->bed[i].core, peer, peer == i);
	}
	for (u32 i = 0; i < ENDS; i++) {
		const u32 j = (i + 1) % ENDS;

		world->named[i][0] = !!random_below(3);
		world->named[i][1] = !!random_below(3);
		bed_join(&world->bed[i], world->named[i][0] ? j : O2G_NO_PEER,
			 O2G_CREDIT_MIN << random_below(4), &world->bed[j],
			 world->named[i][1] ? i : O2G_NO_PEER,
			 O2G_CREDIT_MIN << random_below(4), world->pair[i]);
		world->pair[i][0].arrived = note_arrival;
		world->pair[i][1].arrived = note_arrival;
	}
}

/* Nothing is left: no operation, no message, no charge, no byte. */
static void world_close(struct random_counts *counts)
{
	for (u32 i = 0; i < ENDS; i++) {
		struct o2g_core *core = world->bed[i].core;

		expect_true(!core->ops.used, "an operation is left");
		expect_true(!core->messages.used, "a message is left");
		expect_true(!core->charged && !core->counts.posted &&
				    !core->counts.unmatched,
			    "counts");
		expect_true(!core->table.keys, "a key is left");
	}
	for (u32 i = 0; i < ENDS; i++) {
		counts->requested += world->bed[i].core->counts.requested;
		counts->waited += world->bed[i].core->counts.waited;
		counts->whole += world->bed[i].whole;
	}
	for (u32 i = 0; i < ENDS; i++)
		bed_part(world->pair[i]);
	for (u32 i = 0; i < ENDS; i++)
		expect_true(!bed_close(&world->bed[i]), "memory");
	for (u32 i = 0; i < world->ops; i++) {
		expect_true(world->op[i].over ||
				    (world->op[i].kind == SEND &&
				     world->op[i].flags & O2G_SQE_QUIET),
			    "an operation never completed");
		free(world->op[i].buffer);
	}
}

u32 random_run(u32 seeds, u32 steps, struct random_counts *counts)
{
	u32 bad = 0;

	for (u32 seed = 1; seed <= seeds; seed++) {
		/* Half of those that are cut may be before all have names. */
		const u32 unharmed = seed % 8 ? 1000 : 0;

		world = calloc(1, sizeof(*world));
		world_open(seed);
		for (u32 i = 0; i < steps && !world->bad; i++) {
			if (seed % 4 == 0 && i >= unharmed &&
			    !random_below(1000))
				cut_connection(random_below(ENDS),
					       random_below(2) ? 0 : -104);
			random_step();
		}
		if (world->broken)
			drain_broken();
		else
			drain_all();
		world_close(counts);
		counts->delivered += world->delivered;
		counts->full += world->full;
		if (world->bad && !bad++)
			printf("# seed %u: %s\n", seed, world->why);
		free(world);
	}
	return bad;
}
