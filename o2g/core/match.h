/* SPDX-License-Identifier: MIT */
/* Message matching. */
#ifndef O2G_CORE_MATCH_H
#define O2G_CORE_MATCH_H

#include "operation.h"

#define O2G_ODD_MAX 1024 /* receives whose masks have no class */

/* The fields by which a message is matched, and its queues while it is
 * unmatched. */
struct o2g_envelope {
	u32 source, context;
	u64 tag;
	struct list arrival; /* all unmatched, in order */
	struct o2g_knot by_source, by_any;
	struct o2g_knot masked_source, masked_any;
};

int o2g_match_post(struct o2g_core *core, struct o2g_op_entry *op);
/* Indexes posted receives by their cookies from now on, for cancellation. */
void o2g_match_index_cookies(struct o2g_core *core);
void o2g_match_unpost(struct o2g_core *core, struct o2g_op_entry *op);
/* The posted receive that matches the message, or 0; if `any` is 0, only
 * receives directed at its source. */
struct o2g_op_entry *o2g_match_receive(struct o2g_core *core,
				       const struct o2g_envelope *envelope,
				       int any);
/* Moves an unmatched message whose sender has been named to the right
 * queues. */
void o2g_match_name(struct o2g_core *core, struct o2g_envelope *envelope);
void o2g_match_queue(struct o2g_core *core, struct o2g_envelope *envelope);
void o2g_match_unqueue(struct o2g_core *core, struct o2g_envelope *envelope);
/* The unmatched message that matches such a receive, or 0. */
struct o2g_envelope *o2g_match_message(struct o2g_core *core, u32 peer,
				       u32 context, u64 tag, u64 ignore);

#endif
