/* SPDX-License-Identifier: MIT */
/* Receives, peeks and claims, from submission on. */
#include "base/errno.h"
#include "message.h"
#include "peer.h"
#include "recv.h"

static int source_check(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	if (sqe->peer == O2G_ANY_PEER || o2g_peer_at(core, sqe->peer))
		return 0;
	return -LINUX_EHOSTUNREACH;
}

static int check_recv(struct o2g_core *core, const struct o2g_sqe *sqe,
		      u8 flags)
{
	const u8 both = O2G_SQE_MULTI | O2G_SQE_CLAIMED;

	if (sqe->flags & ~flags || (sqe->flags & both) == both || sqe->zero ||
	    sqe->zero2 || sqe->length > O2G_LENGTH_MAX ||
	    sqe->addr + sqe->length < sqe->addr)
		return -LINUX_EINVAL;
	if (sqe->flags & O2G_SQE_CLAIMED)
		return 0;
	return source_check(core, sqe);
}

static struct o2g_message *find_claimed(struct o2g_core *core, u64 handle)
{
	struct o2g_message *message = o2g_pool_at(&core->messages, (u32)handle);

	if (!message || message->member.generation != (u32)(handle >> 32) ||
	    !o2g_message_is(message, O2G_IS_CLAIMED))
		return 0;
	return message;
}

static int peer_error(struct o2g_core *core, u32 peer)
{
	return peer == O2G_ANY_PEER ? 0 : core->peers[peer].lost;
}

void o2g_recv_fail(struct o2g_core *core, struct o2g_op_entry *op, int status)
{
	if (op->state == O2G_RECV_POSTED)
		o2g_match_unpost(core, op);
	op->state = O2G_RECV_MATCHED;
	if (op->filling) {
		op->closing = status;
		return;
	}
	op->result.cqe.status = status;
	o2g_op_complete(core, op);
}

void o2g_recv_complete(struct o2g_core *core, struct o2g_op_entry *op,
		       u32 source, const struct o2g_frame *frame)
{
	struct o2g_cqe *cqe = &op->result.cqe;

	o2g_match_unpost(core, op);
	cqe->peer = source;
	cqe->context = frame->context;
	cqe->tag = frame->tag;
	cqe->length = frame->length;
	cqe->total = frame->length;
	cqe->data = frame->data;
	cqe->flags = frame->flags & O2G_FRAME_DATA ? O2G_CQE_DATA : 0;
	cqe->where = op->address;
	core->counts.expected++;
	core->counts.received++;
	core->counts.received_bytes += frame->length;
	o2g_op_complete(core, op);
}

/* Whether this message would fill the multi-receive. */
static int fills_multi(const struct o2g_op_entry *op,
		       const struct o2g_message *message)
{
	const u64 room = op->length - op->filled;
	const u64 least_left = op->data ? op->data : 1;

	return message->length >= room || room - message->length < least_left;
}

static int post_recv(struct o2g_core *core, struct o2g_op_entry *op)
{
	int rc = o2g_match_post(core, op);

	if (rc)
		o2g_recv_fail(core, op, rc);
	return rc;
}

/* Suspends the search; it continues before another receive is read. A message
 * that arrives in between matches earlier receives but not this one, so it is
 * queued after the unexpected messages, which this receive has to match
 * first. */
static void put_off(struct o2g_core *core, struct o2g_op_entry *op)
{
	o2g_match_unpost(core, op);
	op->state = O2G_RECV_SEARCHING;
	core->searching = op;
}

/* It is posted first, so that it is still posted after it has matched the
 * unexpected messages. */
static void submit_multi(struct o2g_core *core, struct o2g_op_entry *op)
{
	struct o2g_message *message;

	if (post_recv(core, op))
		return;
	while ((message = o2g_message_find(core, op))) {
		const int last = fills_multi(op, message);

		o2g_message_match(core, message, op);
		core->taken++;
		if (last) /* op may be gone */
			return;
		if (o2g_core_tired(core)) {
			put_off(core, op);
			return;
		}
	}
	if (peer_error(core, op->peer))
		o2g_recv_fail(core, op, peer_error(core, op->peer));
}

void o2g_recv_go_on(struct o2g_core *core)
{
	struct o2g_op_entry *op = core->searching;

	if (!op)
		return;
	core->searching = 0;
	core->changes++;
	submit_multi(core, op);
}

static void submit_recv(struct o2g_core *core, struct o2g_op_entry *op)
{
	struct o2g_message *message = o2g_message_find(core, op);

	if (message)
		o2g_message_match(core, message, op);
	else if (peer_error(core, op->peer))
		o2g_recv_fail(core, op, peer_error(core, op->peer));
	else
		post_recv(core, op);
}

int o2g_recv_submit(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	struct o2g_message *message = 0;
	struct o2g_op_entry *op;
	int rc = check_recv(core, sqe, O2G_SQE_MULTI | O2G_SQE_CLAIMED);

	if (!rc && sqe->flags & O2G_SQE_CLAIMED) {
		message = find_claimed(core, sqe->data);
		rc = message ? 0 : -LINUX_ENOENT;
	}
	if (rc)
		return o2g_result_refuse(core, sqe, rc);
	op = o2g_op_make(core, sqe);
	if (!op)
		return o2g_op_missing(core, sqe);
	if (message)
		o2g_message_match(core, message, op);
	else if (op->flags & O2G_SQE_MULTI)
		submit_multi(core, op);
	else
		submit_recv(core, op);
	return 0;
}

static void fill_peek(struct o2g_core *core, struct o2g_message *message,
		      const struct o2g_sqe *sqe, struct o2g_cqe *cqe)
{
	cqe->peer = message->envelope.source;
	cqe->context = message->envelope.context;
	cqe->tag = message->envelope.tag;
	cqe->length = message->length;
	cqe->total = message->length;
	cqe->data = message->data;
	cqe->flags = message->has_data ? O2G_CQE_DATA : 0;
	if (sqe->flags & O2G_SQE_DISCARD) {
		o2g_message_discard(core, message);
	} else if (sqe->flags & O2G_SQE_CLAIM) {
		o2g_message_claim(core, message);
		cqe->where = (u64)message->member.generation << 32 |
			     message->member.index;
	}
}

int o2g_recv_peek(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	const u8 both = O2G_SQE_CLAIM | O2G_SQE_DISCARD;
	struct o2g_op_entry *op;
	struct o2g_message *message;
	int rc = check_recv(core, sqe, both);

	if (!rc && (sqe->flags & both) == both)
		rc = -LINUX_EINVAL;
	if (rc)
		return o2g_result_refuse(core, sqe, rc);
	op = o2g_op_make(core, sqe);
	if (!op)
		return o2g_op_missing(core, sqe);
	message = o2g_message_find(core, op);
	if (message)
		fill_peek(core, message, sqe, &op->result.cqe);
	else if (peer_error(core, op->peer))
		op->result.cqe.status = peer_error(core, op->peer);
	else
		op->result.cqe.status = -LINUX_ENOMSG;
	o2g_op_complete(core, op);
	return 0;
}

int o2g_recv_cancel(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	const struct o2g_key key = {.kind = O2G_KEY_COOKIE, .tag = sqe->cookie};
	struct o2g_knot *knot;

	o2g_match_index_cookies(core);
	knot = o2g_table_find(&core->table, &key);
	if (knot)
		o2g_recv_fail(core,
			      list_entry(knot, struct o2g_op_entry, cookie_key),
			      -LINUX_ECANCELED);
	return 0;
}

int o2g_recv_discard(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	struct o2g_message *message = find_claimed(core, sqe->data);

	if (!message)
		return o2g_result_refuse(core, sqe, -LINUX_ENOENT);
	o2g_message_discard(core, message);
	return 0;
}
