/* SPDX-License-Identifier: MIT */
/* Receives, peeks and claims: submissions. */
#ifndef O2G_CORE_RECV_H
#define O2G_CORE_RECV_H

#include "operation.h"

int o2g_recv_submit(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_peek(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_cancel(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_discard(struct o2g_core *core, const struct o2g_sqe *sqe);
/* Continues the multi-receive that is searching, if there is one. */
void o2g_recv_go_on(struct o2g_core *core);
/* Completes a posted receive whose message has been stored in its buffer. */
void o2g_recv_complete(struct o2g_core *core, struct o2g_op_entry *op,
		       u32 source, const struct o2g_frame *frame);
void o2g_recv_fail(struct o2g_core *core, struct o2g_op_entry *op, int status);

#endif
