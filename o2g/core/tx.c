/* SPDX-License-Identifier: MIT */
/*
 * Writing a connection. A few frames are planned ahead of the socket, in slots.
 * A planned frame has spent its credit and does not change until it is sent.
 * Order: GRANTs; complete messages or their first piece, and REQUESTs, in the
 * order of submission; further pieces of long bodies in turn; credit alone, if
 * much is owed and nothing else is sent; BYE.
 */
#include "atomic.h"
#include "credit.h"
#include "base/errno.h"
#include "tx.h"

static struct o2g_slot *slot_add(struct o2g_conn *conn, u8 type)
{
	struct o2g_slot *slot =
		&conn->slot[(conn->slot_first + conn->slots++) % O2G_TX_SLOTS];

	*slot = (struct o2g_slot){
		.frame = {.type = type, .credit = conn->owed},
	};
	conn->spent_in -= conn->owed;
	conn->owed = 0;
	return slot;
}

static void slot_body(struct o2g_conn *conn, struct o2g_slot *slot,
		      struct o2g_op_entry *op)
{
	u64 length = op->end - op->planned;

	if (length > O2G_PIECE_SIZE)
		length = O2G_PIECE_SIZE;
	o2g_op_piece(op, op->planned, length, &slot->body);
	slot->frame.body = (u32)length;
	slot->frame.id = op->member.index + 1;
	slot->op = op;
	op->planned += length;
	slot->last = op->planned == op->end;
	if (!slot->last)
		list_append(&conn->bodies, &op->turn);
}

static int plan_grant(struct o2g_conn *conn)
{
	struct list *node = list_first(&conn->grants);
	struct o2g_message *message;
	struct o2g_slot *slot;

	if (!node)
		return 0;
	message = list_entry(node, struct o2g_message, grant);
	slot = slot_add(conn,
			o2g_message_is_access(message) ? O2G_DONE : O2G_GRANT);
	if (o2g_message_is_access(message)) { /* freed when it is sent */
		slot->frame.id = message->id;
		slot->frame.context = (u32)-message->status;
		slot->message = message;
		list_unlink(node);
		return 1;
	}
	slot->frame.id = message->id;
	slot->frame.length = message->expect;
	o2g_message_granted(conn->core, message);
	return 1;
}

static void plan_message(struct o2g_conn *conn, struct o2g_op_entry *op,
			 u64 cost)
{
	struct o2g_slot *slot = slot_add(
		conn, cost > O2G_MESSAGE_COST || !op->length ? O2G_MESSAGE
							     : O2G_REQUEST);

	conn->spent_out += (u32)cost;
	slot->frame.id = op->member.index + 1;
	slot->frame.context = op->context;
	slot->frame.tag = op->tag;
	slot->frame.length = op->length;
	if (op->flags & O2G_SQE_DATA) {
		slot->frame.flags = O2G_FRAME_DATA;
		slot->frame.data = op->data;
	}
	op->conn = conn;
	list_unlink(&op->link);
	list_append(&conn->sending, &op->link);
	if (slot->frame.type == O2G_REQUEST) {
		op->state = O2G_SEND_REQUESTED;
		conn->core->counts.requested++;
		return;
	}
	op->state = O2G_SEND_BODY;
	op->end = op->length;
	slot_body(conn, slot, op);
}

static u64 cost_of(const struct o2g_op_entry *op)
{
	return O2G_MESSAGE_COST +
	       (op->op == O2G_OP_ATOMIC
			? o2g_atomic_stored(op->context, op->length)
			: 0);
}

/* Plans an ATOMIC, whose body is in one frame. */
static void plan_atomic(struct o2g_conn *conn, struct o2g_op_entry *op)
{
	struct o2g_slot *slot = slot_add(conn, O2G_ATOMIC);

	conn->spent_out += (u32)cost_of(op);
	slot->frame.context = op->context;
	slot->frame.tag = op->tag;
	slot->frame.data = op->ignore;
	slot->frame.length = op->length;
	op->conn = conn;
	list_unlink(&op->link);
	list_append(&conn->sending, &op->link);
	op->state = O2G_SEND_BODY;
	op->end = o2g_atomic_body(op->context, op->length);
	slot_body(conn, slot, op);
}

/* Plans a WRITE with its first piece, or a READ. */
static void plan_access(struct o2g_conn *conn, struct o2g_op_entry *op)
{
	const int write = op->op == O2G_OP_WRITE;
	struct o2g_slot *slot = slot_add(conn, write ? O2G_WRITE : O2G_READ);

	conn->spent_out += O2G_MESSAGE_COST;
	slot->frame.id = op->member.index + 1;
	slot->frame.tag = op->tag;
	slot->frame.data = op->ignore;
	slot->frame.length = op->length;
	if (op->flags & O2G_SQE_DATA) {
		slot->frame.flags = O2G_FRAME_DATA;
		slot->frame.context = (u32)op->data;
		slot->frame.high = (u32)(op->data >> 32);
	}
	op->conn = conn;
	list_unlink(&op->link);
	list_append(&conn->sending, &op->link);
	op->state = write ? O2G_SEND_BODY : O2G_RMA_READING;
	op->end = op->length;
	if (write)
		slot_body(conn, slot, op);
}

static struct list *first_send(struct o2g_conn *conn)
{
	return conn->peer == O2G_NO_PEER
		       ? 0
		       : list_first(&conn->core->peers[conn->peer].sends);
}

int o2g_tx_small(const struct o2g_conn *conn, u64 most)
{
	struct list *last;

	if (conn->peer == O2G_NO_PEER || conn->slots || conn->bye_wanted ||
	    o2g_credit_due(conn) || !list_empty(&conn->bodies) ||
	    !list_empty(&conn->replies) || !list_empty(&conn->grants))
		return 0;
	last = list_last(&conn->core->peers[conn->peer].sends);
	return last &&
	       list_entry(last, struct o2g_op_entry, link)->length <= most;
}

static int plan_head(struct o2g_conn *conn)
{
	struct list *node = first_send(conn);
	const u64 credit = conn->credit_out - conn->spent_out;
	struct o2g_op_entry *op;

	if (!node)
		return 0;
	op = list_entry(node, struct o2g_op_entry, link);
	if (credit < cost_of(op)) {
		conn->core->counts.waited += !op->waited;
		op->waited = 1;
		return 0;
	}
	if (op->op == O2G_OP_ATOMIC)
		plan_atomic(conn, op);
	else if (op->op != O2G_OP_SEND)
		plan_access(conn, op);
	else if (op->length <= credit - O2G_MESSAGE_COST)
		plan_message(conn, op, O2G_MESSAGE_COST + op->length);
	else
		plan_message(conn, op, O2G_MESSAGE_COST);
	return 1;
}

void o2g_tx_answer(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_conn *conn = o2g_message_conn(message);

	if (!message->status && o2g_message_replies(message) &&
	    message->arrived < message->take) {
		o2g_message_step(message, O2G_MSG_REPLY);
		list_append(&conn->replies, &message->grant);
		o2g_conn_want(conn);
		return;
	}
	o2g_message_step(message, O2G_MSG_ANSWER);
	core->up->access_answered(core, message);
	list_append(&conn->grants, &message->grant);
	o2g_conn_want(conn);
}

/* Plans the next bytes that a peer's READ asked for. */
static int plan_reply(struct o2g_conn *conn)
{
	struct list *node = list_first(&conn->replies);
	struct o2g_message *message;
	struct o2g_slot *slot;
	u64 length;

	if (!node)
		return 0;
	message = list_entry(node, struct o2g_message, grant);
	slot = slot_add(conn, O2G_REPLY);
	length = message->take - message->arrived;
	if (length > O2G_PIECE_SIZE)
		length = O2G_PIECE_SIZE;
	slot->frame.id = message->id;
	slot->frame.body = (u32)length;
	slot->message = message;
	if (message->kind == O2G_MSG_ATOMIC) /* its reply is one frame */
		slot->body = (struct o2g_piece){.place = O2G_PLACE_CORE,
						.core = message->buffer.core,
						.length = length};
	else
		slot->body = (struct o2g_piece){
			.place = O2G_PLACE_PROGRAM,
			.address = message->address + message->arrived,
			.length = length,
		};
	message->arrived += length;
	list_unlink(node);
	o2g_tx_answer(conn->core, message);
	conn->reply_was_last = 1;
	return 1;
}

/* Plans the next piece of long bodies and replies, in turn. */
static int plan_piece(struct o2g_conn *conn)
{
	struct list *node = list_first(&conn->bodies);

	if ((!node || !conn->reply_was_last) && plan_reply(conn))
		return 1;
	if (!node)
		return 0;
	conn->reply_was_last = 0;
	list_unlink(node);
	slot_body(conn, slot_add(conn, O2G_PIECE),
		  list_entry(node, struct o2g_op_entry, turn));
	return 1;
}

static int conn_idle(struct o2g_conn *conn)
{
	struct list *node, *after;

	if (first_send(conn) || !list_empty(&conn->bodies) ||
	    !list_empty(&conn->replies))
		return 0;
	list_each(node, after, &conn->sending)
	{
		const struct o2g_op_entry *op =
			list_entry(node, struct o2g_op_entry, link);

		if (op->state == O2G_SEND_REQUESTED ||
		    (op->op != O2G_OP_SEND && !conn->bye_in))
			return 0;
	}
	return 1;
}

static int plan_frame(struct o2g_conn *conn)
{
	const int turn =
		conn->burst >= O2G_BURST &&
		!(list_empty(&conn->bodies) && list_empty(&conn->replies));

	if (conn->bye_planned)
		return 0;
	if (plan_grant(conn))
		return 1;
	if (!turn && plan_head(conn)) {
		conn->burst++;
		return 1;
	}
	conn->burst = 0;
	if (plan_piece(conn))
		return 1;
	if (conn->bye_wanted && conn_idle(conn)) {
		slot_add(conn, O2G_BYE);
		conn->bye_planned = 1;
		return 1;
	}
	if (!o2g_credit_due(conn))
		return 0;
	slot_add(conn, O2G_CREDIT);
	return 1;
}

static u64 slot_size(const struct o2g_slot *slot)
{
	return O2G_FRAME_SIZE + slot->frame.body;
}

static void plan_ahead(struct o2g_conn *conn, u32 most)
{
	const u32 limit = conn->core->limits.ahead ?: O2G_TX_AHEAD;
	u64 ahead = 0;

	if (most > O2G_TX_SLOTS)
		most = O2G_TX_SLOTS;
	for (u32 i = 0; i < conn->slots; i++)
		ahead += slot_size(
			&conn->slot[(conn->slot_first + i) % O2G_TX_SLOTS]);
	while (conn->slots < most && ahead < limit && plan_frame(conn))
		ahead += slot_size(
			&conn->slot[(conn->slot_first + conn->slots - 1) %
				    O2G_TX_SLOTS]);
}

/* Lists the rest of a frame of which `done` bytes were sent. */
static int pieces_of(struct o2g_slot *slot, u64 done, struct o2g_piece *piece)
{
	int n = 0;

	if (done < O2G_FRAME_SIZE) {
		piece[n++] = (struct o2g_piece){
			.place = O2G_PLACE_CORE,
			.core = (u8 *)&slot->frame + done,
			.length = O2G_FRAME_SIZE - done,
		};
		done = O2G_FRAME_SIZE;
	}
	if (slot->frame.body) {
		piece[n] = slot->body;
		if (piece[n].place == O2G_PLACE_CORE)
			piece[n].core += done - O2G_FRAME_SIZE;
		piece[n].address += done - O2G_FRAME_SIZE;
		piece[n++].length -= done - O2G_FRAME_SIZE;
	}
	return n;
}

int o2g_tx_gather(struct o2g_conn *conn, struct o2g_piece *piece, int most)
{
	u64 done = conn->slot_done;
	int n = 0;

	plan_ahead(conn, (u32)most / 2);
	conn->tx_offered = 0;
	for (u32 i = 0; i < conn->slots && n + 2 <= most; i++) {
		const int first = n;

		n += pieces_of(
			&conn->slot[(conn->slot_first + i) % O2G_TX_SLOTS],
			done, piece + n);
		for (int k = first; k < n; k++)
			conn->tx_offered += piece[k].length;
		done = 0;
	}
	if (!n)
		conn->asked = 0;
	return n;
}

/* All bytes of a WRITE or an ATOMIC were sent. */
static void access_sent(struct o2g_conn *conn, struct o2g_op_entry *op)
{
	if (op->answered)
		o2g_op_finish(conn->core, op, op->closing);
	else if (conn->bye_in)
		o2g_op_finish(conn->core, op, -LINUX_ESHUTDOWN);
	else
		op->state = O2G_RMA_WAITING;
}

static void slot_out(struct o2g_conn *conn)
{
	struct o2g_slot *slot = &conn->slot[conn->slot_first];

	conn->slot_first = (conn->slot_first + 1) % O2G_TX_SLOTS;
	conn->slots--;
	conn->core->counts.frames_out++;
	if (slot->frame.type == O2G_BYE)
		conn->bye_sent = 1;
	if (slot->frame.type == O2G_DONE)
		o2g_message_granted(conn->core, slot->message);
	if (slot->last && slot->op->op != O2G_OP_SEND)
		access_sent(conn, slot->op);
	else if (slot->last)
		o2g_op_finish(conn->core, slot->op, 0);
}

int o2g_tx_advance(struct o2g_conn *conn, u64 length)
{
	if (length > conn->tx_offered)
		return -LINUX_EPROTO;
	conn->tx_offered -= length;
	conn->slot_done += length;
	while (conn->slots &&
	       conn->slot_done >= slot_size(&conn->slot[conn->slot_first])) {
		conn->slot_done -= slot_size(&conn->slot[conn->slot_first]);
		slot_out(conn);
	}
	return 0;
}
