/* SPDX-License-Identifier: MIT */
/*
 * Operations and completions. A completion for which the ring has no space
 * waits inside its operation or message, in order; nothing is allocated for it.
 */
#include "base/errno.h"
#include "operation.h"

#define FLUSH_MAX 128 /* waiting completions written at a time */

struct o2g_op_entry *o2g_op_make(struct o2g_core *core,
				 const struct o2g_sqe *sqe)
{
	struct o2g_op_entry *op = o2g_pool_take(&core->ops);

	if (!op)
		return 0;
	op->op = sqe->op;
	op->flags = sqe->flags;
	op->peer = sqe->peer;
	op->context = sqe->context;
	op->tag = sqe->tag;
	op->ignore = sqe->ignore;
	op->address = sqe->addr;
	op->length = sqe->length;
	op->data = sqe->data;
	op->cookie = sqe->cookie;
	op->result.cqe = (struct o2g_cqe){
		.cookie = sqe->cookie,
		.op = sqe->op,
		.peer = sqe->peer,
		.context = sqe->context,
		.tag = sqe->tag,
	};
	return op;
}

void o2g_op_free(struct o2g_core *core, struct o2g_op_entry *op)
{
	list_unlink(&op->link);
	list_unlink(&op->turn);
	list_unlink(&op->result.link);
	o2g_pool_give(&core->ops, op);
}

static void result_written(struct o2g_core *core, struct o2g_result *result)
{
	if (result->of_message)
		core->up->result_written(core, result);
	else
		o2g_op_free(core,
			    list_entry(result, struct o2g_op_entry, result));
}

void o2g_result_put(struct o2g_core *core, struct o2g_result *result)
{
	core->completed = 1;
	if (list_empty(&core->backlog) &&
	    o2g_ring_put(&core->ring, &result->cqe))
		result_written(core, result);
	else
		list_append(&core->backlog, &result->link);
	core->host.completed(core->host.ctx);
}

/* Bounded, because the program may free space during this loop and so prolong
 * it. */
int o2g_result_flush(struct o2g_core *core)
{
	u32 most = core->limits.batch ? FLUSH_MAX : ~0u;
	struct list *node;

	for (; (node = list_first(&core->backlog)); most--) {
		struct o2g_result *result =
			list_entry(node, struct o2g_result, link);

		if (!most)
			return 1;
		if (!o2g_ring_put(&core->ring, &result->cqe))
			return 0;
		core->completed = 1;
		list_unlink(node);
		result_written(core, result);
	}
	return 0;
}

void o2g_op_complete(struct o2g_core *core, struct o2g_op_entry *op)
{
	list_unlink(&op->link);
	list_unlink(&op->turn);
	op->state = O2G_OP_DONE;
	o2g_result_put(core, &op->result);
}

void o2g_op_piece(const struct o2g_op_entry *op, u64 offset, u64 length,
		  struct o2g_piece *piece)
{
	piece->place =
		op->flags & O2G_SQE_AREA ? O2G_PLACE_AREA : O2G_PLACE_PROGRAM;
	piece->core = 0;
	piece->address = op->address + offset;
	piece->length = length;
}

void o2g_op_finish(struct o2g_core *core, struct o2g_op_entry *op, int status)
{
	op->result.cqe.status = status;
	op->result.cqe.total = op->length;
	op->result.cqe.length = status ? 0 : op->length;
	if (!status) {
		core->counts.sent++;
		core->counts.sent_bytes += op->length;
	}
	if (!status && op->flags & O2G_SQE_QUIET)
		o2g_op_free(core, op);
	else
		o2g_op_complete(core, op);
}

int o2g_op_missing(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	if (core->wait_memory && core->ops.used < core->ops.most)
		return -LINUX_EAGAIN;
	return o2g_result_refuse(core, sqe, -LINUX_ENOMEM);
}

int o2g_result_refuse(struct o2g_core *core, const struct o2g_sqe *sqe,
		      int status)
{
	const struct o2g_cqe cqe = {
		.cookie = sqe->cookie,
		.status = status,
		.op = sqe->op,
		.peer = sqe->peer,
		.context = sqe->context,
		.tag = sqe->tag,
	};
	struct o2g_op_entry *op;

	if (list_empty(&core->backlog) && o2g_ring_put(&core->ring, &cqe)) {
		core->completed = 1;
		core->host.completed(core->host.ctx);
		return 0;
	}
	op = o2g_op_make(core, sqe);
	if (!op)
		return -LINUX_EAGAIN;
	op->result.cqe.status = status;
	o2g_op_complete(core, op);
	return 0;
}
