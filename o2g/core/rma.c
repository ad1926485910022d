/* SPDX-License-Identifier: MIT */
/*
 * Remote memory access: regions of the program's memory, accesses of peers to
 * them, and replies to this side's accesses. A peer's WRITE, READ or ATOMIC is
 * a message that is matched by its key; the target's program need not do
 * anything.
 *
 * Atomic accesses to all regions are performed one after the other, in the
 * order in which their operands arrived.
 *
 * A region may be removed while the reply to a READ of it is being sent. The
 * rest that is planned is sent as zeros, because its frames were announced, and
 * the DONE after it reports the error.
 */
#include "base/errno.h"
#include "rma.h"
#include "tx.h"

/* ---- regions ---- */

static struct o2g_region *region_find(struct o2g_core *core, u64 key)
{
	const struct o2g_key at = {.kind = O2G_KEY_REGION, .tag = key};
	struct o2g_knot *knot = o2g_table_find(&core->table, &at);

	return knot ? list_entry(knot, struct o2g_region, knot) : 0;
}

int o2g_region_add(struct o2g_core *core,
		   const struct o2g_region_options *options)
{
	const struct o2g_host *host = &core->host;
	const struct o2g_key key = {.kind = O2G_KEY_REGION,
				    .tag = options->key};
	struct o2g_region *region;

	if (options->address + options->length < options->address ||
	    options->first + options->length < options->first)
		return -LINUX_EINVAL;
	if (region_find(core, options->key))
		return -LINUX_EEXIST;
	if (!core->zeros)
		core->zeros = host->alloc(host->ctx, O2G_BODY_MAX);
	region = host->alloc(host->ctx, sizeof(*region));
	if (!region || !core->zeros) {
		if (region)
			host->free(host->ctx, region, sizeof(*region));
		return -LINUX_ENOMEM;
	}
	region->is = *options;
	list_init(&region->users);
	list_append(&core->regions, &region->link);
	o2g_table_add(&core->table, &region->knot, &key);
	return 0;
}

static void region_free(struct o2g_core *core, struct o2g_region *region)
{
	o2g_table_remove(&core->table, &region->knot);
	list_unlink(&region->link);
	core->host.free(core->host.ctx, region, sizeof(*region));
}

void o2g_region_free_all(struct o2g_core *core)
{
	struct list *node;

	while ((node = list_first(&core->regions)))
		region_free(core, list_entry(node, struct o2g_region, link));
	if (core->zeros)
		core->host.free(core->host.ctx, core->zeros, O2G_BODY_MAX);
}

/* Makes planned frames of this READ that have not been sent refer to zeros
 * instead of the region. */
static void blank_slots(struct o2g_conn *conn, struct o2g_message *message)
{
	int blank = 0;

	for (u32 i = 0; i < conn->slots; i++) {
		struct o2g_slot *slot =
			&conn->slot[(conn->slot_first + i) % O2G_TX_SLOTS];

		if (slot->message != message)
			continue;
		if (slot->frame.type == O2G_REPLY) {
			slot->body.place = O2G_PLACE_CORE;
			slot->body.core = conn->core->zeros;
			blank = 1;
		} else if (blank) {
			slot->frame.context = LINUX_EKEYREJECTED;
		}
	}
}

/* An atomic access that was performed is not undone; its result is not stored
 * in the region. */
static int access_done(const struct o2g_message *message)
{
	return message->kind == O2G_MSG_ATOMIC &&
	       o2g_message_is(message, O2G_IS_REPLYING | O2G_IS_ANSWERING);
}

static void lose_region(struct o2g_core *core, struct o2g_message *message)
{
	const int replying = message->kind == O2G_MSG_READ && message->inbox &&
			     o2g_message_is(message, O2G_IS_REPLYING);

	message->region = 0;
	list_unlink(&message->user);
	if (access_done(message))
		return;
	message->status = -LINUX_EKEYREJECTED;
	if (message->kind == O2G_MSG_READ && message->inbox)
		blank_slots(o2g_message_conn(message), message);
	if (!replying)
		return;
	list_unlink(&message->grant);
	o2g_tx_answer(core, message);
}

int o2g_region_remove(struct o2g_core *core, u64 key)
{
	struct o2g_region *region = region_find(core, key);
	struct list *node;

	if (!region)
		return -LINUX_ENOENT;
	while ((node = list_first(&region->users)))
		lose_region(core, list_entry(node, struct o2g_message, user));
	region_free(core, region);
	return 0;
}

/* ---- accesses by peers ---- */

static u32 needed_rights(const struct o2g_message *message)
{
	if (message->kind == O2G_MSG_WRITE)
		return O2G_REGION_WRITE;
	if (message->kind == O2G_MSG_READ)
		return O2G_REGION_READ;
	return (o2g_atomic_writes(message->atomic) ? O2G_REGION_WRITE : 0) |
	       (o2g_atomic_fetches(message->atomic) ? O2G_REGION_READ : 0);
}

/* The address in the program's memory, if the access is allowed. */
static int resolve_region(struct o2g_core *core, struct o2g_message *message,
			  u64 key, u64 place)
{
	const u32 rights = needed_rights(message);
	struct o2g_region *region = region_find(core, key);

	if (!region)
		return -LINUX_EKEYREJECTED;
	if (rights & ~region->is.rights)
		return -LINUX_EACCES;
	if (place < region->is.first ||
	    place - region->is.first > region->is.length ||
	    message->take > region->is.length - (place - region->is.first))
		return -LINUX_ERANGE;
	message->address = region->is.address + (place - region->is.first);
	if (message->kind == O2G_MSG_ATOMIC &&
	    message->address % o2g_atomic_size(message->atomic))
		return -LINUX_EINVAL;
	message->region = region;
	list_append(&region->users, &message->user);
	return 0;
}

static void set_atomic(struct o2g_message *message,
		       const struct o2g_piece *from,
		       const struct o2g_piece *result)
{
	message->copy.from = *from;
	message->copy.from.length =
		o2g_atomic_body(message->atomic, message->take);
	message->copy.to = (struct o2g_piece){.place = O2G_PLACE_PROGRAM,
					      .address = message->address,
					      .length = message->take};
	message->copy.result = *result;
	message->copy.result.length = message->take;
	message->copy.atomic = message->atomic;
}

/* Reads the access from its frame and allocates memory for operands and result:
 * 0 or -EAGAIN. */
static int read_access(struct o2g_core *core, struct o2g_message *message,
		       const struct o2g_frame *frame)
{
	const int atomic = frame->type == O2G_ATOMIC;

	message->kind = frame->type == O2G_WRITE ? O2G_MSG_WRITE
			: atomic		 ? O2G_MSG_ATOMIC
						 : O2G_MSG_READ;
	message->id = frame->id;
	message->length = frame->length;
	message->expect = frame->length;
	message->take = frame->length;
	message->has_data = frame->flags & O2G_FRAME_DATA;
	message->data = (u64)frame->high << 32 | frame->context;
	if (atomic) {
		message->atomic = frame->context;
		message->expect =
			o2g_atomic_body(frame->context, frame->length);
	}
	message->status =
		resolve_region(core, message, frame->tag, frame->data);
	if (!atomic || message->status)
		return 0;
	if (o2g_message_store(core, message,
			      o2g_atomic_stored(frame->context, frame->length)))
		return -LINUX_EAGAIN;
	message->split = message->expect;
	set_atomic(message, &message->buffer, &message->buffer);
	return 0;
}

struct o2g_message *o2g_rma_begin(struct o2g_conn *conn)
{
	const struct o2g_frame *frame = &conn->rx_frame;
	struct o2g_core *core = conn->core;
	struct o2g_message *message =
		o2g_message_make(core, &conn->inbox, conn->peer);

	if (!message)
		return 0;
	if (o2g_message_charge(core, message) ||
	    read_access(core, message, frame)) {
		o2g_message_drop(core, message);
		return 0;
	}
	return message;
}

/* Writes a completion if the program asked for one, which may free the message.
 * Returns whether it did. */
static int report_access(struct o2g_core *core, struct o2g_message *message,
			 const struct o2g_region *region)
{

	if (message->status || !region ||
	    !(message->has_data || region->is.rights & O2G_REGION_EVENTS))
		return 0;
	message->result.cqe = (struct o2g_cqe){
		.cookie = region->is.cookie,
		.op = o2g_message_replies(message) ? O2G_OP_READ_OUT
						   : O2G_OP_WRITTEN,
		.flags = message->has_data ? O2G_CQE_DATA : 0,
		.peer = message->envelope.source,
		.length = message->take,
		.total = message->take,
		.data = message->data,
		.where = message->address,
	};
	o2g_message_step(message, O2G_MSG_WAIT);
	o2g_result_put(core, &message->result);
	return 1;
}

void o2g_rma_answered(struct o2g_core *core, struct o2g_message *message)
{
	report_access(core, message, message->region);
	if (message->kind != O2G_MSG_READ) {
		list_unlink(&message->user);
		message->region = 0;
	}
}

void o2g_rma_complete(struct o2g_core *core, struct o2g_message *message)
{
	const struct o2g_region *region = message->region;
	struct o2g_op_entry *send = message->send;
	const int status = message->status;

	if (message->inbox) {
		if (message->kind == O2G_MSG_ATOMIC)
			message->arrived = 0; /* now counts its reply */
		o2g_tx_answer(core, message);
		return;
	}
	list_unlink(&message->user);
	message->region = 0;
	message->send = 0;
	if (!send || !report_access(core, message, region))
		o2g_message_settle(core, message);
	if (send)
		o2g_op_finish(core, send, status);
}

/* ---- atomic accesses ---- */

int o2g_rma_perform(struct o2g_core *core, struct o2g_message *message)
{
	int rc;

	if (core->atomic) {
		list_append(&core->atomics, &message->turn);
		return -LINUX_EAGAIN;
	}
	core->atomic = message;
	o2g_message_step(message, O2G_MSG_COPY);
	rc = core->host.copy(core->host.ctx, &message->copy);
	if (rc == O2G_COPY_LATER)
		return rc;
	o2g_message_step(message, O2G_MSG_COPIED);
	core->atomic = 0;
	return rc;
}

/* If the engine performs an access at once, it ends before the next is
 * started. */
void o2g_rma_performed(struct o2g_core *core)
{
	struct list *node;

	core->atomic = 0;
	while (!core->atomic && (node = list_first(&core->atomics))) {
		list_unlink(node);
		o2g_message_advance(core,
				    list_entry(node, struct o2g_message, turn));
	}
}

/* ---- this side's accesses ---- */

int o2g_rma_check(const struct o2g_core *core, const struct o2g_sqe *sqe)
{
	if (!core->limits.access)
		return -LINUX_EINVAL;
	if (sqe->op == O2G_OP_ATOMIC)
		return sqe->flags & O2G_SQE_DATA ||
				       !o2g_atomic_valid(sqe->context,
							 sqe->length) ||
				       sqe->data + sqe->length < sqe->data
			       ? -LINUX_EINVAL
			       : 0;
	if (sqe->context || (sqe->op == O2G_OP_READ &&
			     sqe->flags & (O2G_SQE_DATA | O2G_SQE_AREA)))
		return -LINUX_EINVAL;
	return 0;
}

void o2g_rma_self(struct o2g_core *core, struct o2g_op_entry *op,
		  struct o2g_message *message)
{
	struct o2g_piece mine, theirs;
	int rc = 0;

	message->kind = op->op == O2G_OP_WRITE	  ? O2G_MSG_WRITE
			: op->op == O2G_OP_ATOMIC ? O2G_MSG_ATOMIC
						  : O2G_MSG_READ;
	message->atomic = op->op == O2G_OP_ATOMIC ? op->context : 0;
	message->envelope.source = op->peer;
	message->take = op->length;
	message->has_data = !!(op->flags & O2G_SQE_DATA);
	message->data = message->has_data ? op->data : 0;
	message->status = resolve_region(core, message, op->tag, op->ignore);
	o2g_message_step(message, O2G_MSG_MATCH);
	o2g_op_piece(op, 0, op->length, &mine);
	theirs = (struct o2g_piece){.place = O2G_PLACE_PROGRAM,
				    .address = message->address,
				    .length = op->length};
	if (op->op == O2G_OP_ATOMIC)
		set_atomic(message, &mine,
			   &(struct o2g_piece){.place = O2G_PLACE_PROGRAM,
					       .address = op->data});
	else if (!message->status && op->length)
		rc = op->op == O2G_OP_WRITE
			     ? o2g_message_copy(core, message, &mine, &theirs)
			     : o2g_message_copy(core, message, &theirs, &mine);
	if (rc == O2G_COPY_LATER)
		return;
	if (rc)
		message->status = rc;
	o2g_message_advance(core, message);
}

static struct o2g_op_entry *find_access(struct o2g_conn *conn, u32 id)
{
	struct o2g_op_entry *op = o2g_pool_at(&conn->core->ops, id - 1);

	return op && op->conn == conn ? op : 0;
}

static int op_fetches(const struct o2g_op_entry *op)
{
	return op->op == O2G_OP_READ ||
	       (op->op == O2G_OP_ATOMIC && o2g_atomic_fetches(op->context));
}

/* An engine that writes without its lock reports later that the frame was
 * sent. */
static int is_out(const struct o2g_op_entry *op)
{
	return op->op != O2G_OP_SEND && op->state == O2G_SEND_BODY &&
	       op->planned == op->end && !op->answered;
}

int o2g_rma_done(struct o2g_conn *conn, const struct o2g_frame *frame)
{
	struct o2g_op_entry *op = find_access(conn, frame->id);
	const int status = -(int)frame->context;

	if (!op || (!status && op_fetches(op) && op->filled != op->length))
		return -LINUX_EPROTO;
	if (is_out(op)) {
		op->answered = 1;
		op->closing = status;
		return 0;
	}
	if (op->state != O2G_RMA_WAITING && op->state != O2G_RMA_READING)
		return -LINUX_EPROTO;
	o2g_op_finish(conn->core, op, status);
	return 0;
}

u64 o2g_rma_destination(const struct o2g_op_entry *op)
{
	return (op->op == O2G_OP_ATOMIC ? op->data : op->address) + op->filled;
}

int o2g_rma_reply(struct o2g_conn *conn, const struct o2g_frame *frame)
{
	struct o2g_op_entry *op = find_access(conn, frame->id);

	if (!op || !op_fetches(op) ||
	    (op->state != O2G_RMA_READING && op->state != O2G_RMA_WAITING &&
	     !is_out(op)) ||
	    frame->body > op->length - op->filled)
		return -LINUX_EPROTO;
	conn->rx_op = op;
	conn->rx_left = frame->body;
	conn->rx = O2G_RX_BODY;
	return 0;
}

void o2g_rma_unanswered(struct o2g_conn *conn)
{
	struct list *node, *after;

	list_each(node, after, &conn->sending)
	{
		struct o2g_op_entry *op =
			list_entry(node, struct o2g_op_entry, link);

		if (op->state == O2G_RMA_WAITING ||
		    op->state == O2G_RMA_READING)
			o2g_op_finish(conn->core, op, -LINUX_ESHUTDOWN);
	}
}
