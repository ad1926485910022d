/* SPDX-License-Identifier: MIT */
/*
 * Reading a connection. A header is collected and checked; the bytes of one
 * message may follow it. Every error here ends the connection, because the peer
 * is faulty or hostile.
 */
#include "credit.h"
#include "atomic.h"
#include "base/errno.h"
#include "frame.h"
#include "progress.h"
#include "recv.h"
#include "rma.h"
#include "send.h"
#include "tx.h"

static struct o2g_key id_key(const struct o2g_conn *conn, u32 id)
{
	return (struct o2g_key){
		.kind = O2G_KEY_ID, .source = id, .tag = conn->serial};
}

/* The credit that the first frame of a message or an access costs. */
static u64 cost_of(const struct o2g_frame *frame)
{
	if (frame->type == O2G_MESSAGE)
		return O2G_MESSAGE_COST + frame->length;
	return O2G_MESSAGE_COST +
	       (frame->type == O2G_ATOMIC
			? o2g_atomic_stored(frame->context, frame->length)
			: 0);
}

/* Whether there is credit for this frame, and its id is not in use. */
static int opens_well(const struct o2g_conn *conn,
		      const struct o2g_frame *frame, u64 cost)
{
	const struct o2g_key key = id_key(conn, frame->id);

	return cost <= conn->credit_in - conn->spent_in &&
	       (!conn->inbox.incomplete ||
		!o2g_table_find(&conn->core->table, &key));
}

static int may_open(struct o2g_conn *conn, const struct o2g_frame *frame)
{
	const u64 cost = cost_of(frame);

	if (!opens_well(conn, frame, cost))
		return -LINUX_EPROTO;
	conn->spent_in += (u32)cost;
	conn->rx = O2G_RX_START;
	o2g_credit_owe(conn, 0);
	return 0;
}

/* If the message has a body, its bytes come next. If it has none, it may
 * already be freed. */
static int expect_body(struct o2g_conn *conn, struct o2g_message *message)
{
	const u32 body = conn->rx_frame.body;

	conn->rx_left = body;
	conn->inbox.reading = body ? message : 0;
	conn->rx = body ? O2G_RX_BODY : O2G_RX_HEADER;
	return 0;
}

static int start_access(struct o2g_conn *conn)
{
	const struct o2g_frame *frame = &conn->rx_frame;
	const struct o2g_key key = id_key(conn, frame->id);
	struct o2g_message *message = o2g_rma_begin(conn);

	if (!message)
		return -LINUX_EAGAIN;
	message->cost = (u32)cost_of(frame);
	if (frame->type == O2G_READ || !frame->length) {
		o2g_tx_answer(conn->core, message);
		return expect_body(conn, 0);
	}
	if (!message->expect) { /* an ATOMIC that only reads */
		o2g_message_step(message, O2G_MSG_MATCH);
		o2g_message_advance(conn->core, message);
		return expect_body(conn, 0);
	}
	o2g_message_step(message, O2G_MSG_OPEN);
	o2g_message_step(message, O2G_MSG_MATCH);
	conn->inbox.incomplete++;
	if (message->expect > frame->body)
		o2g_table_add(&conn->core->table, &message->by_id, &key);
	return expect_body(conn, message);
}

/* Matches the message whose header has arrived: 0, or -EAGAIN if there is no
 * memory. */
static int start_message(struct o2g_conn *conn)
{
	const struct o2g_frame *frame = &conn->rx_frame;
	const struct o2g_key key = id_key(conn, frame->id);
	const int request = frame->type == O2G_REQUEST;
	const u64 body = request ? 0 : frame->length;
	struct o2g_core *core = conn->core;
	struct o2g_message *message;

	if (frame->type == O2G_WRITE || frame->type == O2G_READ ||
	    frame->type == O2G_ATOMIC)
		return start_access(conn);
	message = o2g_message_make(core, &conn->inbox, conn->peer);
	if (!message)
		return -LINUX_EAGAIN;
	message->envelope.context = frame->context;
	message->envelope.tag = frame->tag;
	message->data = frame->data;
	message->has_data = !!(frame->flags & O2G_FRAME_DATA);
	message->id = frame->id;
	message->length = frame->length;
	message->expect = body;
	message->kind = request ? O2G_MSG_REQUEST : O2G_MSG_EAGER;
	message->cost = (u32)(O2G_MESSAGE_COST + body);
	if (frame->length) {
		o2g_message_step(message, O2G_MSG_OPEN);
		conn->inbox.incomplete++;
	}
	/* No other frame arrives before the end of this one. */
	if (frame->length > frame->body)
		o2g_table_add(&core->table, &message->by_id, &key);
	if (o2g_message_arrive(core, message)) {
		o2g_message_undo(core, message);
		return -LINUX_EAGAIN;
	}
	return expect_body(conn, message);
}

static int accept_piece(struct o2g_conn *conn, const struct o2g_frame *frame)
{
	const struct o2g_key key = id_key(conn, frame->id);
	struct o2g_knot *knot = o2g_table_find(&conn->core->table, &key);
	struct o2g_message *message;

	if (!knot)
		return -LINUX_EPROTO;
	message = list_entry(knot, struct o2g_message, by_id);
	/* A piece of a REQUEST whose GRANT has not been sent. */
	if (message->kind == O2G_MSG_REQUEST &&
	    message->invited != O2G_INVITED &&
	    (message->invited == O2G_INVITING ||
	     o2g_message_is(message, O2G_IS_UNEXPECTED | O2G_IS_CLAIMED |
					     O2G_IS_ANSWERING)))
		return -LINUX_EPROTO;
	if (frame->body > message->expect - message->arrived)
		return -LINUX_EPROTO;
	conn->rx_left = frame->body;
	conn->inbox.reading = message;
	conn->rx = O2G_RX_BODY;
	return 0;
}

static void set_blocked(struct o2g_conn *conn, int blocked)
{
	if (conn->blocked == blocked)
		return;
	conn->core->blocked += blocked ? 1 : -1;
	conn->blocked = blocked;
}

static int accept_header(struct o2g_conn *conn)
{
	const struct o2g_frame *frame = &conn->rx_frame;

	if (o2g_frame_check(frame) || o2g_credit_take(conn, frame))
		return -LINUX_EPROTO;
	conn->core->counts.frames_in++;
	switch (frame->type) {
	case O2G_WRITE:
	case O2G_READ:
	case O2G_ATOMIC:
		if (may_open(conn, frame))
			return -LINUX_EPROTO;
		set_blocked(conn, start_message(conn) != 0);
		return 0;
	case O2G_REPLY:
		return o2g_rma_reply(conn, frame);
	case O2G_DONE:
		return o2g_rma_done(conn, frame);
	case O2G_MESSAGE:
	case O2G_REQUEST:
		if (may_open(conn, frame))
			return -LINUX_EPROTO;
		o2g_core_read(conn->core);
		/* o2g_rx_blocked() tries again */
		set_blocked(conn, start_message(conn) != 0);
		return 0;
	case O2G_PIECE:
		return accept_piece(conn, frame);
	case O2G_GRANT:
		if (o2g_send_granted(conn, frame->id, frame->length))
			return -LINUX_EPROTO;
		o2g_conn_want(conn);
		return 0;
	case O2G_BYE:
		conn->bye_in = 1;
		o2g_rma_unanswered(conn);
		return conn->inbox.incomplete ? -LINUX_EPROTO : 0;
	}
	return 0;
}

/* ---- messages that have arrived completely ---- */

int o2g_rx_fresh(const struct o2g_conn *conn)
{
	return conn->rx == O2G_RX_HEADER && !conn->rx_have && !conn->bye_in &&
	       !conn->blocked;
}

/* Everything else, also a faulty frame, is left to accept_header(). */
static int lies_whole(const struct o2g_conn *conn,
		      const struct o2g_frame *frame, u64 length)
{
	return frame->type == O2G_MESSAGE && frame->body == frame->length &&
	       frame->body <= length - O2G_FRAME_SIZE &&
	       !o2g_frame_check(frame) && frame->credit <= conn->spent_out &&
	       opens_well(conn, frame, O2G_MESSAGE_COST + frame->length);
}

/* No message object is created, because nothing of the message remains. */
u64 o2g_rx_whole(struct o2g_conn *conn, const u8 *byte, u64 length)
{
	struct o2g_frame *frame = &conn->rx_frame;
	struct o2g_core *core = conn->core;
	struct o2g_envelope envelope;
	struct o2g_op_entry *op;

	if (!core->host.store || length < O2G_FRAME_SIZE || !o2g_rx_fresh(conn))
		return 0;
	__builtin_memcpy(frame, byte, O2G_FRAME_SIZE);
	if (!lies_whole(conn, frame, length))
		return 0;
	o2g_core_read(core);
	envelope.source = conn->peer;
	envelope.context = frame->context;
	envelope.tag = frame->tag;
	op = o2g_match_receive(core, &envelope, 1);
	if (!op || op->flags & O2G_SQE_MULTI || frame->length > op->length ||
	    core->host.store(core->host.ctx, op->address, byte + O2G_FRAME_SIZE,
			     frame->length))
		return 0;
	(void)o2g_credit_take(conn, frame); /* checked */
	core->counts.frames_in++;
	conn->spent_in += (u32)(O2G_MESSAGE_COST + frame->length);
	o2g_recv_complete(core, op, conn->peer, frame);
	o2g_credit_owe(conn, (u32)(O2G_MESSAGE_COST + frame->length));
	if (o2g_credit_short(conn))
		o2g_credit_write_off(conn);
	o2g_core_ask(core);
	return O2G_FRAME_SIZE + frame->length;
}

/* Sets where the next bytes go: 0 or -EAGAIN. */
static int next_place(struct o2g_conn *conn, struct o2g_piece *piece)
{
	if (conn->rx == O2G_RX_START && start_message(conn))
		return -LINUX_EAGAIN;
	if (conn->rx == O2G_RX_BODY && conn->rx_op) {
		*piece = (struct o2g_piece){
			.place = O2G_PLACE_PROGRAM,
			.address = o2g_rma_destination(conn->rx_op),
			.length = conn->rx_left,
		};
		return 0;
	}
	if (conn->rx == O2G_RX_BODY)
		return o2g_message_place(conn->core, conn->inbox.reading,
					 conn->rx_left, piece);
	*piece = (struct o2g_piece){
		.place = O2G_PLACE_CORE,
		.core = (u8 *)&conn->rx_frame + conn->rx_have,
		.length = O2G_FRAME_SIZE - conn->rx_have,
	};
	return 0;
}

int o2g_rx_want(struct o2g_conn *conn, struct o2g_piece *piece)
{
	const int starts = conn->rx == O2G_RX_START, blocked = conn->blocked;
	int rc;

	conn->inbox.offered = 0;
	if (conn->bye_in)
		return -LINUX_EPIPE;
	rc = next_place(conn, piece);
	set_blocked(conn, rc == -LINUX_EAGAIN);
	if (!rc)
		conn->inbox.offered = piece->length;
	if (starts && o2g_credit_short(conn))
		o2g_credit_write_off(conn);
	if (starts || conn->blocked != blocked)
		o2g_core_ask(conn->core);
	return rc;
}

int o2g_rx_blocked(struct o2g_conn *conn)
{
	struct o2g_piece piece;

	return conn->blocked && o2g_rx_want(conn, &piece) == -LINUX_EAGAIN;
}

static void body_received(struct o2g_conn *conn, u64 length)
{
	struct o2g_message *message = conn->inbox.reading;
	struct o2g_op_entry *op = conn->rx_op;

	conn->rx_left -= (u32)length;
	if (!conn->rx_left) {
		conn->rx = O2G_RX_HEADER;
		conn->inbox.reading = 0;
		conn->rx_op = 0;
	}
	if (op)
		op->filled += length;
	else
		o2g_message_receive(conn->core, message, length);
}

int o2g_rx_done(struct o2g_conn *conn, u64 length)
{
	int rc = 0;

	if (length > conn->inbox.offered)
		return -LINUX_EPROTO;
	conn->inbox.offered = 0;
	if (!length)
		return 0;
	if (conn->rx == O2G_RX_HEADER) {
		conn->rx_have += (u32)length;
		if (conn->rx_have == O2G_FRAME_SIZE) {
			conn->rx_have = 0;
			rc = accept_header(conn);
		}
	} else {
		body_received(conn, length);
	}
	if (o2g_credit_short(conn))
		o2g_credit_write_off(conn);
	o2g_core_ask(conn->core);
	return rc;
}
