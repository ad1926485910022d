/* SPDX-License-Identifier: MIT */
/* A connection: the state of reading and of writing. */
#ifndef O2G_CORE_CONNECTION_H
#define O2G_CORE_CONNECTION_H

#include "message.h"
#include "peer.h"

#define O2G_TX_SLOTS 16 /* frames planned before the socket has space */

struct o2g_slot { /* a planned frame */
	struct o2g_frame frame;
	struct o2g_op_entry *op;
	/* REPLY, DONE: the access that it answers */
	struct o2g_message *message;
	struct o2g_piece body;
	int last; /* last frame of op */
};

enum o2g_rx_state { O2G_RX_HEADER, O2G_RX_START, O2G_RX_BODY };

struct o2g_conn {
	struct o2g_inbox inbox;
	struct o2g_core *core;
	void *host;
	struct list link; /* in core->conns or core->endings */
	u64 serial;
	u32 peer;
	int ending; /* -errno of what is left, after its end */

	enum o2g_rx_state rx;
	struct o2g_frame rx_frame;
	u32 rx_have;		    /* bytes of the header that were received */
	u32 rx_left;		    /* bytes of the body that are missing */
	struct o2g_op_entry *rx_op; /* the READ that this REPLY answers */
	int blocked, bye_in;
	/* in core->unserved: the sender waits for credit */
	struct list unserved;
	u32 credit_in, spent_in, owed;

	struct list sending; /* sends with a frame planned */
	struct list bodies;  /* sends with pieces left to plan, round robin */
	struct list grants;
	struct list replies; /* READs with bytes left to plan, round robin */
	int reply_was_last;
	u32 credit_out, spent_out;
	struct o2g_slot slot[O2G_TX_SLOTS];
	u32 slot_first, slots;
	u64 slot_done;	/* bytes of the first slot that were sent */
	u64 tx_offered; /* bytes that were gathered */
	u32 burst;
	int asked; /* want_tx was called */
	int bye_wanted, bye_planned, bye_sent;
};

/* The message's connection; 0 if that has ended, or for a message to
 * oneself. */
static inline struct o2g_conn *o2g_message_conn(const struct o2g_message *m)
{
	return m->inbox ? list_entry(m->inbox, struct o2g_conn, inbox) : 0;
}

/* Reports to the engine that the connection has something to write. */
static inline void o2g_conn_want(struct o2g_conn *conn)
{
	if (conn->asked || conn->ending)
		return;
	conn->asked = 1;
	conn->core->host.want_tx(conn->core->host.ctx, conn);
}

#endif
