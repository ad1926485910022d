/* SPDX-License-Identifier: MIT */
/* A connection: what it reads and what it writes. */
#ifndef O2G_CORE_CONNECTION_H
#define O2G_CORE_CONNECTION_H

#include "message.h"
#include "peer.h"

#define O2G_TX_SLOTS 16 /* frames prepared before the socket has space */

struct o2g_slot { /* a planned frame */
	struct o2g_frame frame;
	struct o2g_op_entry *op;
	struct o2g_message *message; /* REPLY, DONE: what it answers */
	struct o2g_piece body;
	int last; /* of op */
};

enum o2g_rx_state { O2G_RX_HEADER, O2G_RX_START, O2G_RX_BODY };

struct o2g_conn {
	struct o2g_inbox inbox;
	struct o2g_core *core;
	void *host;
	struct list link; /* of the core */
	u64 serial;
	u32 peer;
	int ending; /* it has ended: the rest fails with this */

	enum o2g_rx_state rx;
	struct o2g_frame rx_frame;
	u32 rx_have;		    /* bytes of the header */
	u32 rx_left;		    /* bytes of the body */
	struct o2g_op_entry *rx_op; /* the READ whose REPLY it is */
	int blocked, bye_in;
	struct list unserved; /* of the core: its sender waits for credit */
	u32 credit_in, spent_in, owed;

	struct list sending; /* sends with a frame planned */
	struct list bodies;  /* sends with pieces to go, round robin */
	struct list grants;
	struct list replies; /* READs with bytes to go, round robin */
	int reply_was_last;
	u32 credit_out, spent_out;
	struct o2g_slot slot[O2G_TX_SLOTS];
	u32 slot_first, slots;
	u64 slot_done;	/* bytes of the first one that went out */
	u64 tx_offered; /* bytes gathered */
	u32 burst;
	int asked; /* want_tx was called */
	int bye_wanted, bye_planned, bye_sent;
};

/* 0: the connection ended, or it is a message to oneself. */
static inline struct o2g_conn *o2g_message_conn(const struct o2g_message *m)
{
	return m->inbox ? list_entry(m->inbox, struct o2g_conn, inbox) : 0;
}

/* Marks it as having something to write. */
static inline void o2g_conn_want(struct o2g_conn *conn)
{
	if (conn->asked || conn->ending)
		return;
	conn->asked = 1;
	conn->core->host.want_tx(conn->core->host.ctx, conn);
}

#endif
