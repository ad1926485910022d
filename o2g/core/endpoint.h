/* SPDX-License-Identifier: MIT */
/*
 * The state of an endpoint that all layers of the core share, and the upcalls
 * of lower layers. One lock of the engine guards all of it.
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
	u32 directed, any; /* posted receives */
};

/* Upcalls: a layer includes only headers of lower layers
 * (tests/style/c-layers.tbl has the order), so it calls higher ones through
 * these. Set when the core is created. */
struct o2g_upcalls {
	/* operation.c: this completion of a message has been written. */
	void (*result_written)(struct o2g_core *core,
			       struct o2g_result *result);
	/* message.c: the credit of a message is to be returned to its
	 * sender. */
	void (*credit_owed)(struct o2g_inbox *inbox, u32 cost);
	/* message.c: this message has a GRANT to send. */
	void (*grant_due)(struct o2g_message *message);
	/* message.c: all bytes of an access are in place, or forgotten. */
	void (*access_complete)(struct o2g_core *core,
				struct o2g_message *message);
	/* message.c: the operands of an atomic access are here. Results as of
	 * o2g_message_copy(), or -EAGAIN: it waits for another one. */
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
	struct list endings;  /* conns with something left to end */
	struct list unserved; /* conns to get credit once less is buffered */
	u32 failing;	      /* the first peer, or O2G_NO_PEER */
	struct o2g_peer *peers;
	u32 peers_made;
	u32 lost_peers;
	u64 sequence, serial;
	struct o2g_class class[O2G_CLASSES];
	u32 classes;	 /* that were ever used: the first ones */
	struct list odd; /* posted receives with further masks, in order */
	u32 odds;
	struct list arrival; /* unmatched messages in order */
	struct list regions;
	struct list uninvited; /* unmatched REQUESTs that wait for memory */
	struct o2g_message *atomic; /* being done by the engine */
	struct list atomics;	    /* the next ones, in order */
	u8 *zeros;   /* O2G_BODY_MAX of them, once there was a region */
	u64 scanned; /* entries compared outside of the table */
	u64 rested;  /* scanned, when submissions were last read */
	u32 taken;   /* by multi-receives since then */
	/* A multi-receive that has not looked at all unmatched messages. */
	struct o2g_op_entry *searching;
	int cookies;	/* posted receives are found by their cookies */
	u64 mask;	/* unmatched messages are found under it too */
	u64 mask_tried; /* another, and what its searches cost */
	u64 mask_cost;
	int masked;
	u64 charged;
	u32 blocked;
	int completed, broken, stalled;
	int more, wait_memory;
	u64 changes;
	struct o2g_counts counts;
};

/* Has this batch of submissions used up its budget? */
static inline int o2g_core_tired(const struct o2g_core *core)
{
	return core->limits.batch &&
	       (core->scanned - core->rested > O2G_SCAN_MAX ||
		core->taken >= core->limits.batch);
}

#endif
