/* SPDX-License-Identifier: MIT */
/* Remote memory access, by peers and by this side. */
#ifndef O2G_CORE_RMA_H
#define O2G_CORE_RMA_H

#include "connection.h"

struct o2g_region { /* memory that peers may access */
	struct o2g_knot knot;
	struct list link;  /* in core->regions */
	struct list users; /* accesses in progress */
	struct o2g_region_options is;
};

/* The access whose header has arrived; 0: no memory. */
struct o2g_message *o2g_rma_begin(struct o2g_conn *conn);
/* All bytes of a WRITE are in place or were dropped, or a copy is complete. */
void o2g_rma_complete(struct o2g_core *core, struct o2g_message *message);
/* The answer to an access is about to be queued: writes its completion if the
 * program asked for one. */
void o2g_rma_answered(struct o2g_core *core, struct o2g_message *message);
void o2g_rma_self(struct o2g_core *core, struct o2g_op_entry *op,
		  struct o2g_message *message);
/* The operands of an atomic access are in its buffer: performs it, or queues it
 * if another one is in progress. */
int o2g_rma_perform(struct o2g_core *core, struct o2g_message *message);
/* Called when the engine has performed an atomic access. */
void o2g_rma_performed(struct o2g_core *core);
int o2g_rma_check(const struct o2g_core *core, const struct o2g_sqe *sqe);
/* The program's address for the next bytes of a REPLY to this READ or
 * ATOMIC. */
u64 o2g_rma_destination(const struct o2g_op_entry *op);
/* Handles a frame that answers an operation of this side: 0 or -EPROTO. */
int o2g_rma_done(struct o2g_conn *conn, const struct o2g_frame *frame);
int o2g_rma_reply(struct o2g_conn *conn, const struct o2g_frame *frame);
/* Called after the peer's BYE: no more answers will arrive. */
void o2g_rma_unanswered(struct o2g_conn *conn);
void o2g_region_free_all(struct o2g_core *core);

#endif
