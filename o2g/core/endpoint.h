/* SPDX-License-Identifier: MIT */
/*
 * The state of an endpoint, which all layers of the core share, and the upcalls
 * of lower layers. The engine's lock guards all of it.
 */
#ifndef O2G_CORE_ENDPOINT_H
#define O2G_CORE_ENDPOINT_H

#include "core.h"
#include "list.h"
#include "pool.h"
#include "ring.h"
#include "slab.h"
#include "table.h"

#define O2G_CLASSES 8	  /* ignore masks that are hashed */
#define O2G_SCAN_MAX 4096 /* messages looked at for one batch */

struct o2g_inbox;
struct o2g_message;
struct o2g_op_entry;
struct o2g_peer;
struct o2g_result;

struct o2g_class {
	u64 ignore;
	u32 directed, any; /* numbers of posted receives */
};

/* Upcalls. A layer includes only headers of lower layers
 * (tests/style/c-layers.tbl has the order), so it calls higher layers through
 * these. Each names its caller. */
struct o2g_upcalls {
	/* operation.c: this completion of a message has been written. */
	void (*result_written)(struct o2g_core *core,
			       struct o2g_result *result);
	/* message.c: the credit of a message is to be returned to its
	 * sender. */
	void (*credit_owed)(struct o2g_inbox *inbox, u32 cost);
	/* message.c: this message has a GRANT to send. */
	void (*grant_due)(struct o2g_message *message);
	/* message.c: all bytes of an access are in place, or were dropped. */
	void (*access_complete)(struct o2g_core *core,
				struct o2g_message *message);
	/* message.c: the operands of an atomic access are here. Returns what
	 * o2g_message_copy() returns, or -EAGAIN if another access is in
	 * progress. */
	int (*access_perform)(struct o2g_core *core,
			      struct o2g_message *message);
	/* tx.c: the DONE of an access is about to be queued. */
	void (*access_answered)(struct o2g_core *core,
				struct o2g_message *message);
};

struct o2g_core {
	struct o2g_host host;
	const struct o2g_upcalls *up;
	struct o2g_limits limits;
	struct o2g_ring ring;
	struct o2g_pool ops, messages;
	struct o2g_table table;
	struct o2g_slab slab;
	struct list backlog;
	struct list conns;
	struct list endings;  /* connections that are not cleaned up */
	struct list unserved; /* conns that wait for early credit */
	/* first peer with operations to fail, or O2G_NO_PEER */
	u32 failing;
	struct o2g_peer *peers;
	u32 peers_made;
	u32 lost_peers;
	u64 sequence, serial;
	struct o2g_class class[O2G_CLASSES];
	u32 classes;	 /* how many of `class` are in use */
	struct list odd; /* posted receives with other masks, in order */
	u32 odds;
	struct list arrival; /* unmatched messages, in order */
	struct list regions;
	struct list uninvited; /* unmatched REQUESTs that wait for memory */
	struct o2g_message *atomic; /* performed by the engine now */
	struct list atomics;	    /* those that wait for it, in order */
	/* O2G_BODY_MAX zero bytes; allocated with the first region */
	u8 *zeros;
	u64 scanned; /* entries compared outside of the table */
	u64 rested;  /* `scanned` when submissions were last read */
	u32 taken;   /* by multi-receives since then */
	/* A multi-receive that has not been compared with all unmatched
	 * messages. */
	struct o2g_op_entry *searching;
	int cookies; /* posted receives are indexed by cookie */
	/* ignore mask of the second index of unmatched messages */
	u64 mask;
	u64 mask_tried; /* another mask, and the cost of its searches */
	u64 mask_cost;
	int masked;
	u64 charged;
	u32 blocked;
	int completed, broken, stalled;
	int more, wait_memory;
	u64 changes;
	struct o2g_counts counts;
};

/* Whether this batch of submissions has used up its budget. */
static inline int o2g_core_tired(const struct o2g_core *core)
{
	return core->limits.batch &&
	       (core->scanned - core->rested > O2G_SCAN_MAX ||
		core->taken >= core->limits.batch);
}

#endif
