/* SPDX-License-Identifier: MIT */
/*
 * Sends, from submission to completion. A send is in its peer's queue until its
 * first frame is planned (tx.c); then it belongs to its connection.
 */
#include "base/errno.h"
#include "atomic.h"
#include "rma.h"
#include "send.h"

/* The number of body bytes of a submission. */
static u64 body_length(const struct o2g_sqe *sqe)
{
	return sqe->op == O2G_OP_ATOMIC
		       ? o2g_atomic_body(sqe->context, sqe->length)
		       : sqe->length;
}

static int check_send(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	const u8 flags = O2G_SQE_DATA | O2G_SQE_AREA | O2G_SQE_QUIET;
	const struct o2g_ring *ring = &core->ring;
	const struct o2g_peer *peer = o2g_peer_at(core, sqe->peer);

	if (sqe->op != O2G_OP_SEND && o2g_rma_check(core, sqe))
		return -LINUX_EINVAL;
	if (sqe->flags & ~flags || sqe->zero || sqe->zero2 ||
	    sqe->length > O2G_LENGTH_MAX ||
	    sqe->addr + body_length(sqe) < sqe->addr)
		return -LINUX_EINVAL;
	if (sqe->flags & O2G_SQE_AREA &&
	    (sqe->addr < ring->outbox ||
	     sqe->addr + body_length(sqe) > ring->outbox + ring->outbox_size))
		return -LINUX_EINVAL;
	if (!peer)
		return -LINUX_EHOSTUNREACH;
	if (peer->lost)
		return peer->lost;
	return peer->conn && peer->conn->bye_wanted ? -LINUX_ESHUTDOWN : 0;
}

/* A send to the endpoint itself: it is matched at once; otherwise a small one
 * is copied, and a large one stays in its buffer. */
static void submit_self(struct o2g_core *core, struct o2g_op_entry *op,
			struct o2g_message *message)
{
	op->state = O2G_SEND_SELF;
	core->counts.self++;
	message->send = op;
	if (op->op != O2G_OP_SEND) {
		o2g_rma_self(core, op, message);
		return;
	}
	message->envelope.source = op->peer;
	message->envelope.context = op->context;
	message->envelope.tag = op->tag;
	message->has_data = !!(op->flags & O2G_SQE_DATA);
	message->data = message->has_data ? op->data : 0;
	message->length = op->length;
	message->arrived = op->length;
	message->expect = op->length;
	if (o2g_match_receive(core, &message->envelope, 1)) {
		o2g_message_arrive(core, message);
		return;
	}
	o2g_message_arrive(core, message);
	if (op->length <= O2G_SELF_COPY)
		o2g_message_buffer(core, message);
}

int o2g_send_submit(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	struct o2g_message *message = 0;
	struct o2g_op_entry *op;
	int rc = check_send(core, sqe);

	if (rc)
		return o2g_result_refuse(core, sqe, rc);
	if (core->peers[sqe->peer].self) {
		message = o2g_message_make(core, 0, O2G_NO_PEER);
		if (!message)
			return o2g_op_missing(core, sqe);
	}
	op = o2g_op_make(core, sqe);
	if (!op) {
		if (message)
			o2g_message_drop(core, message);
		return o2g_op_missing(core, sqe);
	}
	if (message) {
		submit_self(core, op, message);
		return 0;
	}
	op->state = O2G_SEND_QUEUED;
	list_append(&core->peers[op->peer].sends, &op->link);
	if (core->peers[op->peer].conn)
		o2g_conn_want(core->peers[op->peer].conn);
	return 0;
}

int o2g_send_granted(struct o2g_conn *conn, u32 id, u64 length)
{
	struct o2g_core *core = conn->core;
	struct o2g_op_entry *op = o2g_pool_at(&core->ops, id - 1);

	if (!op || op->state != O2G_SEND_REQUESTED || op->conn != conn ||
	    length > op->length)
		return -LINUX_EPROTO;
	if (!length) {
		o2g_op_finish(core, op, 0);
		return 0;
	}
	op->state = O2G_SEND_BODY;
	op->end = length;
	list_append(&conn->bodies, &op->turn);
	return 0;
}
