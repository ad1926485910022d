/* SPDX-License-Identifier: MIT */
/*
 * A message from its first frame to its completion. It arrives over a
 * connection or from the endpoint itself, and passes through the states of
 * message_state.h. At the end its credit is returned and its memory freed.
 *
 * Body bytes below `split` go to `buffer`, in memory of the core or the slab;
 * the rest goes directly to the receive's buffer. So if a receive is posted
 * after half of the message has arrived, that half is copied, and the other
 * half arrives in place.
 */
#include "base/errno.h"
#include "message.h"

static u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

struct o2g_message *o2g_message_make(struct o2g_core *core,
				     struct o2g_inbox *inbox, u32 source)
{
	struct o2g_message *message = o2g_pool_take(&core->messages);

	if (!message)
		return 0;
	message->state = O2G_MSG_NEW;
	message->result.of_message = 1;
	message->buffer.place = O2G_PLACE_FORGET;
	message->inbox = inbox;
	message->envelope.source = source;
	if (inbox)
		list_append(&inbox->messages, &message->here);
	return message;
}

/* Lists a complete unmatched message, whose credit may be returned early. */
static void queue_early_credit(struct o2g_message *message)
{
	const u32 unmatched = O2G_IS_UNEXPECTED | O2G_IS_CLAIMED;

	if (message->inbox && message->cost &&
	    o2g_message_is(message, unmatched) &&
	    (message->kind == O2G_MSG_REQUEST ||
	     !o2g_message_is(message, O2G_IS_ARRIVING)) &&
	    !list_linked(&message->early_credit))
		list_append(&message->inbox->early_credit,
			    &message->early_credit);
}

void o2g_message_unbuffer(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_piece *buffer = &message->buffer;

	core->changes += buffer->place != O2G_PLACE_FORGET;
	if (buffer->place == O2G_PLACE_CORE && buffer->core != message->small)
		core->host.free(core->host.ctx, buffer->core, buffer->length);
	else if (buffer->place == O2G_PLACE_AREA)
		o2g_slab_give(&core->slab, buffer->address);
	buffer->place = O2G_PLACE_FORGET;
}

static int buffer_slab(struct o2g_core *core, struct o2g_message *message,
		       u64 length)
{
	struct o2g_piece *buffer = &message->buffer;

	buffer->address = o2g_slab_take(&core->slab, length);
	if (!buffer->address)
		return -LINUX_EAGAIN;
	buffer->place = O2G_PLACE_AREA;
	buffer->length = length;
	message->split = length;
	return 0;
}

static int buffer_core(struct o2g_core *core, struct o2g_message *message,
		       u64 length)
{
	struct o2g_piece *buffer = &message->buffer;

	buffer->core = length <= sizeof(message->small)
			       ? message->small
			       : core->host.alloc(core->host.ctx, length);
	if (!buffer->core)
		return -LINUX_EAGAIN;
	buffer->place = O2G_PLACE_CORE;
	buffer->length = length;
	message->split = length;
	return 0;
}

static int charge_message(struct o2g_core *core, struct o2g_message *message,
			  u64 bytes)
{
	if (bytes > core->limits.unexpected ||
	    core->charged > core->limits.unexpected - bytes)
		return -LINUX_EAGAIN;
	core->charged += bytes;
	message->charged += bytes;
	core->counts.unmatched_bytes = core->charged;
	return 0;
}

static void uncharge_message(struct o2g_core *core, struct o2g_message *message,
			     u64 bytes)
{
	core->charged -= bytes;
	message->charged -= bytes;
	core->counts.unmatched_bytes = core->charged;
}

/* Allocates memory for the body of an unmatched message. If the slab has no
 * contiguous space, memory of the core is used: waiting could last for ever,
 * because the fragments are between messages that the program receives
 * later. */
static int buffer_body(struct o2g_core *core, struct o2g_message *message)
{
	if (charge_message(core, message, message->length))
		return -LINUX_EAGAIN;
	if (core->limits.slab_message &&
	    !buffer_slab(core, message, message->length))
		return 0;
	if (!buffer_core(core, message, message->length))
		return 0;
	uncharge_message(core, message, message->length);
	return -LINUX_EAGAIN;
}

/* The same for a message that may wait: an engine with a slab allocates the
 * slab page by page, but the core's memory as one block, so only the slab is
 * used. */
static int buffer_for_later(struct o2g_core *core, struct o2g_message *message)
{
	if (!core->limits.slab_message)
		return buffer_body(core, message);
	if (charge_message(core, message, message->length))
		return -LINUX_EAGAIN;
	if (!buffer_slab(core, message, message->length))
		return 0;
	uncharge_message(core, message, message->length);
	return -LINUX_EAGAIN;
}

int o2g_message_store(struct o2g_core *core, struct o2g_message *message,
		      u64 bytes)
{
	if (charge_message(core, message, bytes))
		return -LINUX_EAGAIN;
	if (!buffer_core(core, message, bytes))
		return 0;
	uncharge_message(core, message, bytes);
	return -LINUX_EAGAIN;
}

void o2g_message_drop(struct o2g_core *core, struct o2g_message *message)
{
	o2g_message_unbuffer(core, message);
	core->changes += message->charged > 0;
	uncharge_message(core, message, message->charged);
	list_unlink(&message->here);
	list_unlink(&message->early_credit);
	list_unlink(&message->user);
	list_unlink(&message->turn);
	list_unlink(&message->result.link);
	if (message->inbox)
		core->up->credit_owed(message->inbox, message->cost);
	o2g_pool_give(&core->messages, message);
}

void o2g_message_settle(struct o2g_core *core, struct o2g_message *message)
{
	if (message->state == O2G_MSG_DONE)
		o2g_message_drop(core, message);
}

int o2g_message_charge(struct o2g_core *core, struct o2g_message *message)
{
	return charge_message(core, message, sizeof(*message));
}

static void message_arrived(struct o2g_core *core, struct o2g_message *message)
{
	if (!o2g_message_is(message, O2G_IS_ARRIVING))
		return;
	o2g_message_step(message, O2G_MSG_RECEIVED);
	o2g_table_remove(&core->table, &message->by_id);
	message->inbox->incomplete--;
	queue_early_credit(message);
}

void o2g_message_undo(struct o2g_core *core, struct o2g_message *message)
{
	message_arrived(core, message);
	message->cost = 0;
	o2g_message_drop(core, message);
}

/* Whether the program can copy the body from the slab itself. Such a completion
 * has no field for the message's length, so truncated messages are excluded. */
static int in_slab(const struct o2g_message *message)
{
	return message->buffer.place == O2G_PLACE_AREA &&
	       message->split >= message->take &&
	       message->take == message->length;
}

static void result_fill(struct o2g_core *core, struct o2g_message *message,
			struct o2g_cqe *cqe)
{
	const int cut = message->length > message->take;

	cqe->status = message->status ? message->status
		      : cut	      ? -LINUX_EMSGSIZE
				      : 0;
	cqe->cookie = message->op->cookie;
	cqe->op = O2G_OP_RECV;
	cqe->peer = message->envelope.source;
	cqe->context = message->envelope.context;
	cqe->tag = message->envelope.tag;
	cqe->length = message->status ? 0 : message->take;
	cqe->total = message->length;
	cqe->data = message->data;
	cqe->flags = message->has_data ? O2G_CQE_DATA : 0;
	cqe->where = message->address;
	if (message->status || !in_slab(message))
		return;
	cqe->flags |= O2G_CQE_SLAB;
	cqe->where = message->buffer.address;
	cqe->total = message->address;
	o2g_slab_lend(&core->slab, message->buffer.address);
	message->buffer.place = O2G_PLACE_FORGET;
}

/* The completion of a multi-receive is in its message. The last one frees the
 * operation. */
static void complete_multi(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_op_entry *op = message->op;
	struct o2g_cqe *cqe = &message->result.cqe;
	const int last = !--op->filling && op->state == O2G_RECV_MATCHED;

	result_fill(core, message, cqe);
	if (!last || op->closing)
		cqe->flags |= O2G_CQE_MORE;
	o2g_message_step(message, O2G_MSG_WAIT);
	o2g_result_put(core, &message->result);
	if (!last)
		return;
	if (op->closing) {
		op->result.cqe.status = op->closing;
		o2g_op_complete(core, op);
	} else {
		o2g_op_free(core, op);
	}
}

static void complete_receive(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_op_entry *op = message->op;

	o2g_message_step(message, O2G_MSG_COMPLETE);
	if (o2g_message_is_access(message)) {
		core->up->access_complete(core, message);
		return;
	}
	if (message->send) {
		o2g_op_finish(core, message->send, 0);
		message->send = 0;
	}
	if (!message->status) {
		core->counts.received++;
		core->counts.received_bytes += message->take;
	}
	if (op->flags & O2G_SQE_MULTI) {
		complete_multi(core, message);
		return;
	}
	result_fill(core, message, &op->result.cqe);
	o2g_op_complete(core, op);
	o2g_message_settle(core, message);
}

static int start_copy(struct o2g_core *core, struct o2g_message *message,
		      const struct o2g_piece *from, const struct o2g_piece *to)
{
	message->copy.from = *from;
	message->copy.to = *to;
	return core->host.copy(core->host.ctx, &message->copy);
}

int o2g_message_copy(struct o2g_core *core, struct o2g_message *message,
		     const struct o2g_piece *from, const struct o2g_piece *to)
{
	int rc;

	o2g_message_step(message, O2G_MSG_COPY);
	rc = start_copy(core, message, from, to);
	if (rc != O2G_COPY_LATER)
		o2g_message_step(message, O2G_MSG_COPIED);
	return rc;
}

/* Copies buffered bytes to the receive's buffer. Returns 0: done, or nothing to
 * copy; O2G_COPY_LATER; -EAGAIN: cannot be copied yet; or another -errno. */
static int copy_buffered(struct o2g_core *core, struct o2g_message *message)
{
	const u64 length = message->send
				   ? message->take
				   : min_u64(message->split, message->take);
	struct o2g_piece from, to;

	if (message->status || o2g_message_is(message, O2G_IS_COPIED))
		return 0;
	if (message->kind == O2G_MSG_ATOMIC)
		return o2g_message_is(message, O2G_IS_ARRIVING)
			       ? -LINUX_EAGAIN
			       : core->up->access_perform(core, message);
	if (!length)
		return 0;
	from = message->buffer;
	to = (struct o2g_piece){.place = O2G_PLACE_PROGRAM,
				.address = message->address,
				.length = length};
	if (message->send) {
		o2g_op_piece(message->send, 0, length, &from);
	} else if (message->arrived < message->split) {
		return -LINUX_EAGAIN;
	} else if (in_slab(message)) {
		return o2g_message_is(message, O2G_IS_ARRIVING) ? -LINUX_EAGAIN
								: 0;
	}
	from.length = length;
	return o2g_message_copy(core, message, &from, &to);
}

void o2g_message_advance(struct o2g_core *core, struct o2g_message *message)
{
	int rc;

	if (!o2g_message_is(message, O2G_IS_MATCHED) ||
	    o2g_message_is(message, O2G_IS_COPYING | O2G_IS_BUFFERING))
		return;
	rc = copy_buffered(core, message);
	if (rc == O2G_COPY_LATER || rc == -LINUX_EAGAIN)
		return;
	if (rc < 0)
		message->status = rc;
	if (!o2g_message_is(message, O2G_IS_ARRIVING))
		complete_receive(core, message);
}

/* Removes the message from the index of unexpected messages; the caller changes
 * its state. */
static void unmatch_message(struct o2g_core *core, struct o2g_message *message)
{
	if (o2g_message_is(message, O2G_IS_UNEXPECTED))
		o2g_match_unqueue(core, &message->envelope);
}

/* Sets where in the receive's buffer the message goes, and how much of it. */
static void aim_message(struct o2g_core *core, struct o2g_message *message,
			struct o2g_op_entry *op)
{
	const int multi = op->flags & O2G_SQE_MULTI;
	const u64 least_left = op->data ? op->data : 1;

	message->op = op;
	message->address = op->address + op->filled;
	message->take = min_u64(message->length, op->length - op->filled);
	if (message->status)
		message->take = 0;
	if (multi) {
		op->filled += message->take;
		op->filling++;
	}
	if (multi && op->length - op->filled >= least_left)
		return;
	if (op->state == O2G_RECV_POSTED)
		o2g_match_unpost(core, op);
	op->state = O2G_RECV_MATCHED;
}

static void grant_bytes(struct o2g_core *core, struct o2g_message *message,
			u64 bytes)
{
	message->expect = bytes;
	if (!bytes)
		message_arrived(core, message);
	o2g_message_step(message, O2G_MSG_ANSWER);
	core->up->grant_due(message);
}

/* Bytes that have arrived, or are being read into `buffer`, stay there. Later
 * ones go directly to the receive, unless the program gets the message in the
 * slab. */
static void redirect_body(struct o2g_core *core, struct o2g_message *message)
{
	const u32 slab = core->limits.slab_message;
	const struct o2g_inbox *inbox = message->inbox;
	u64 split = message->arrived;

	if (message->buffer.place == O2G_PLACE_FORGET) {
		if (slab && message->take && message->take <= slab &&
		    message->inbox && message->take == message->length)
			buffer_slab(core, message, message->take);
		return;
	}
	if (slab && message->length <= slab)
		return;
	if (inbox && inbox->reading == message)
		split += inbox->offered;
	message->split = min_u64(message->split, split);
	if (!message->split)
		o2g_message_unbuffer(core, message);
}

void o2g_message_match(struct o2g_core *core, struct o2g_message *message,
		       struct o2g_op_entry *op)
{
	unmatch_message(core, message);
	o2g_message_step(message, O2G_MSG_MATCH);
	list_unlink(&message->early_credit);
	list_unlink(&message->turn);
	aim_message(core, message, op);
	if (!message->status)
		redirect_body(core, message);
	if (message->kind == O2G_MSG_REQUEST && !message->invited &&
	    !message->status)
		grant_bytes(core, message, message->take);
	o2g_message_advance(core, message);
}

/* Allocates memory for the complete body of an unmatched REQUEST and grants it:
 * 0 or -EAGAIN. As with any unexpected message, what has arrived when a receive
 * matches is copied, and the rest arrives in place. */
static int invite_message(struct o2g_core *core, struct o2g_message *message)
{
	const struct o2g_host *host = &core->host;
	u64 most = core->limits.invited;

	if (message->length > most || core->charged > most - message->length)
		return -LINUX_EAGAIN;
	if (host->spare)
		most = min_u64(most, host->spare(host->ctx));
	if (message->length > most || core->charged > most - message->length ||
	    buffer_for_later(core, message))
		return -LINUX_EAGAIN;
	list_unlink(&message->turn);
	message->expect = message->length;
	message->invited = O2G_INVITING;
	core->up->grant_due(message);
	return 0;
}

void o2g_message_invite(struct o2g_core *core)
{
	u32 most = core->limits.batch ? 1 : ~0u;

	for (; most > 0 && o2g_message_inviting(core); most--)
		if (invite_message(core,
				   list_entry(list_first(&core->uninvited),
					      struct o2g_message, turn)))
			return;
}

int o2g_message_arrive(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_op_entry *op =
		o2g_match_receive(core, &message->envelope, 1);

	if (op) {
		core->counts.expected++;
		o2g_message_match(core, message, op);
		return 0;
	}
	/* A message to oneself costs no credit: if memory is short, its send
	 * waits. */
	if (!message->send && charge_message(core, message, sizeof(*message)))
		return -LINUX_EAGAIN;
	core->counts.unexpected++;
	o2g_message_step(message, O2G_MSG_QUEUE);
	o2g_match_queue(core, &message->envelope);
	queue_early_credit(message);
	if (message->kind == O2G_MSG_REQUEST &&
	    message->length <= core->limits.invited) {
		list_append(&core->uninvited, &message->turn);
		o2g_message_invite(core);
	}
	return 0;
}

struct o2g_message *o2g_message_find(struct o2g_core *core,
				     const struct o2g_op_entry *op)
{
	struct o2g_envelope *envelope = o2g_match_message(
		core, op->peer, op->context, op->tag, op->ignore);

	return envelope ? list_entry(envelope, struct o2g_message, envelope)
			: 0;
}

void o2g_message_name(struct o2g_core *core, struct o2g_message *message,
		      u32 source)
{
	struct o2g_op_entry *op;

	message->envelope.source = source;
	if (!o2g_message_is(message, O2G_IS_UNEXPECTED))
		return;
	o2g_match_name(core, &message->envelope);
	op = o2g_match_receive(core, &message->envelope, 0);
	if (op)
		o2g_message_match(core, message, op);
}

void o2g_message_claim(struct o2g_core *core, struct o2g_message *message)
{
	unmatch_message(core, message);
	o2g_message_step(message, O2G_MSG_CLAIM);
}

void o2g_message_discard(struct o2g_core *core, struct o2g_message *message)
{
	unmatch_message(core, message);
	o2g_message_step(message, O2G_MSG_DISCARD);
	list_unlink(&message->early_credit);
	list_unlink(&message->turn);
	if (message->send && !o2g_message_is(message, O2G_IS_BUFFERING)) {
		o2g_op_finish(core, message->send, 0);
		message->send = 0;
	}
	if (message->kind == O2G_MSG_REQUEST && message->inbox &&
	    !message->invited)
		grant_bytes(core, message, 0);
	o2g_message_settle(core, message);
}

int o2g_message_place(struct o2g_core *core, struct o2g_message *message,
		      u64 most, struct o2g_piece *piece)
{
	const int matched = o2g_message_is(message, O2G_IS_MATCHED);
	const int discarded = o2g_message_is(message, O2G_IS_DISCARDED);
	const u64 at = message->arrived;

	if (!matched && !discarded &&
	    message->buffer.place == O2G_PLACE_FORGET &&
	    buffer_body(core, message))
		return -LINUX_EAGAIN;
	if (!discarded && at < message->split) {
		*piece = message->buffer;
		if (piece->place == O2G_PLACE_CORE)
			piece->core += at;
		else
			piece->address += at;
		piece->length = min_u64(most, message->split - at);
	} else if (matched && !message->status && at < message->take) {
		piece->place = O2G_PLACE_PROGRAM;
		piece->core = 0;
		piece->address = message->address + at;
		piece->length = min_u64(most, message->take - at);
	} else {
		*piece = (struct o2g_piece){.place = O2G_PLACE_FORGET,
					    .length = most};
	}
	return 0;
}

void o2g_message_receive(struct o2g_core *core, struct o2g_message *message,
			 u64 length)
{
	message->arrived += length;
	if (message->arrived == message->expect)
		message_arrived(core, message);
	if (o2g_message_is(message, O2G_IS_MATCHED))
		o2g_message_advance(core, message);
	else
		o2g_message_settle(core, message);
}

void o2g_message_granted(struct o2g_core *core, struct o2g_message *message)
{
	list_unlink(&message->grant);
	if (message->invited == O2G_INVITING) {
		message->invited = O2G_INVITED;
		return;
	}
	o2g_message_step(message, O2G_MSG_ANSWERED);
	o2g_message_settle(core, message);
}

/* Called when the connection has ended. A complete message remains. */
void o2g_message_cut(struct o2g_core *core, struct o2g_message *message,
		     int status)
{
	const int arriving = o2g_message_is(message, O2G_IS_ARRIVING);

	if (arriving) {
		o2g_table_remove(&core->table, &message->by_id);
		message->inbox->incomplete--;
		message->status = status;
		unmatch_message(core, message);
	}
	list_unlink(&message->grant);
	list_unlink(&message->here);
	list_unlink(&message->early_credit);
	if (message->kind == O2G_MSG_REQUEST)
		list_unlink(&message->turn);
	message->inbox = 0;
	o2g_message_step(message, O2G_MSG_CUT);
	if (arriving && o2g_message_is(message, O2G_IS_MATCHED))
		o2g_message_advance(core, message);
	else
		o2g_message_settle(core, message);
}

/* A message to oneself has been copied: completes its send. */
static void finish_buffering(struct o2g_core *core, struct o2g_message *message,
			     int status)
{
	o2g_op_finish(core, message->send, status);
	message->send = 0;
	o2g_message_step(message, O2G_MSG_BUFFERED);
	if (!status)
		return;
	message->status = status;
	if (!o2g_message_is(message, O2G_IS_UNEXPECTED))
		return;
	unmatch_message(core, message);
	o2g_message_step(message, O2G_MSG_DISCARD);
}

void o2g_message_copied(struct o2g_core *core, struct o2g_message *message,
			int status)
{
	if (o2g_message_is(message, O2G_IS_BUFFERING)) {
		finish_buffering(core, message, status);
	} else {
		o2g_message_step(message, O2G_MSG_COPIED);
		if (status)
			message->status = status;
	}
	if (o2g_message_is(message, O2G_IS_MATCHED))
		o2g_message_advance(core, message);
	else
		o2g_message_settle(core, message);
}

/* Copies a message to oneself into the core's memory, if there is enough; its
 * send is completed now or after the copy. */
void o2g_message_buffer(struct o2g_core *core, struct o2g_message *message)
{
	struct o2g_piece from;
	int rc = 0;

	if (charge_message(core, message, sizeof(*message)))
		return;
	if (message->length && buffer_body(core, message)) {
		uncharge_message(core, message, sizeof(*message));
		return;
	}
	o2g_message_step(message, O2G_MSG_BUFFER);
	if (message->length) {
		o2g_op_piece(message->send, 0, message->length, &from);
		rc = start_copy(core, message, &from, &message->buffer);
	}
	if (rc == O2G_COPY_LATER)
		return;
	finish_buffering(core, message, rc);
	o2g_message_settle(core, message);
}

void o2g_message_written(struct o2g_core *core, struct o2g_result *result)
{
	struct o2g_message *message =
		list_entry(result, struct o2g_message, result);

	o2g_message_step(message, O2G_MSG_WRITTEN);
	o2g_message_settle(core, message);
}
