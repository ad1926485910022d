/* SPDX-License-Identifier: MIT */
/* Remote memory access, of peers and of ours. */
#ifndef O2G_CORE_RMA_H
#define O2G_CORE_RMA_H

#include "connection.h"

struct o2g_region { /* memory that peers may access */
	struct o2g_knot knot;
	struct list link;  /* of the core */
	struct list users; /* accesses under way */
	struct o2g_region_options is;
};

/* An access whose header is here; 0: no memory. */
struct o2g_message *o2g_rma_begin(struct o2g_conn *conn);
/* All bytes of a WRITE are in place, or dropped, or its copy is done. */
void o2g_rma_complete(struct o2g_core *core, struct o2g_message *message);
/* Completes an answered access if the program asked for it. */
void o2g_rma_answered(struct o2g_core *core, struct o2g_message *message);
void o2g_rma_self(struct o2g_core *core, struct o2g_op_entry *op,
		  struct o2g_message *message);
/* The operands of an atomic access are in its buffer: does it, or waits for the
 * one that the engine is at. */
int o2g_rma_perform(struct o2g_core *core, struct o2g_message *message);
/* The engine has done an atomic access. */
void o2g_rma_performed(struct o2g_core *core);
int o2g_rma_check(const struct o2g_core *core, const struct o2g_sqe *sqe);
/* Where the next bytes of a REPLY to this READ or ATOMIC go. */
u64 o2g_rma_destination(const struct o2g_op_entry *op);
/* A frame that answers an operation of ours: 0 or -EPROTO. */
int o2g_rma_done(struct o2g_conn *conn, const struct o2g_frame *frame);
int o2g_rma_reply(struct o2g_conn *conn, const struct o2g_frame *frame);
/* The other side said BYE: nothing is answered any more. */
void o2g_rma_unanswered(struct o2g_conn *conn);
void o2g_region_free_all(struct o2g_core *core);

#endif
