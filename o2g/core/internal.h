/* SPDX-License-Identifier: MIT */
/*
 * What the files of the core share: operations, messages, peers, connections.
 * One lock of the engine guards all of it.
 */
#ifndef O2G_CORE_INTERNAL_H
#define O2G_CORE_INTERNAL_H

#include "core.h"
#include "error.h"
#include "list.h"
#include "pool.h"
#include "ring.h"
#include "slab.h"
#include "table.h"

#define O2G_CLASSES 8	     /* ignore masks that are hashed */
#define O2G_ODD_MAX 1024     /* receives with further masks */
#define O2G_TX_SLOTS 16	     /* frames planned ahead of the socket */
#define O2G_TX_AHEAD 0x40000 /* bytes planned ahead, without limits.ahead */
#define O2G_PIECE_SIZE O2G_BODY_MAX
#define O2G_BURST 16 /* messages that may pass a long body's next piece */
#define O2G_SMALL 64 /* bodies that need no memory of their own */
#define O2G_SELF_COPY 0x4000 /* messages to oneself, copied up to this */

/* A completion that waits, in an operation or in a message. */
struct o2g_result {
	struct list link; /* core's backlog */
	struct o2g_cqe cqe;
	u8 of_message;
};

enum o2g_op_state {
	O2G_RECV_POSTED = 1,
	O2G_RECV_MATCHED,   /* or a multi-receive that is full */
	O2G_RECV_SEARCHING, /* the core's one, not posted at the moment */
	O2G_SEND_QUEUED,    /* nothing of it is planned */
	O2G_SEND_REQUESTED,
	O2G_SEND_BODY,	 /* MESSAGE or pieces are planned, or were */
	O2G_SEND_SELF,	 /* a message refers to its buffer */
	O2G_RMA_WAITING, /* a WRITE that went out: for its DONE */
	O2G_RMA_READING, /* a READ that is planned */
	O2G_OP_DONE
};

struct o2g_op_entry {
	struct o2g_member member; /* its number + 1 is a send's id */
	struct o2g_result result;
	struct list link; /* sends of its peer; posted with an odd mask */
	struct list turn; /* long bodies; receives directed at its peer */
	struct o2g_knot key, cookie_key;
	u8 op, flags, state, class;
	u8 waited, answered; /* a WRITE's DONE came before it was out */
	u32 peer, context;
	u64 tag, ignore, address, length, data, cookie;
	u64 sequence;	       /* of posting */
	u64 planned, end;      /* send: bytes in frames, bytes to send */
	struct o2g_conn *conn; /* send: where frames of it went */
	u64 filled;	       /* multi: given to messages; READ: here */
	u32 filling;	       /* multi: messages not completed */
	int closing;	       /* multi: ends so when they are */
};

/* Why a message is still needed; it is freed when nothing is left. */
enum {
	O2G_MSG_HELD = 1,    /* unmatched, in the index */
	O2G_MSG_CLAIMED = 2, /* unmatched, a handle of the program */
	O2G_MSG_TAKEN = 4,   /* by a receive that is not completed */
	O2G_MSG_ARRIVING =
		8,	    /* bytes, or the whole body of a request, to come */
	O2G_MSG_GRANT = 16, /* a GRANT is to be sent */
	O2G_MSG_COPY = 32,  /* a copy is under way */
	O2G_MSG_RESULT = 64, /* its completion waits for room */
	O2G_MSG_REPLY = 128  /* of a READ: bytes to plan, or a DONE to go out */
};

struct o2g_message {
	struct o2g_member member;
	struct o2g_result result;
	struct list here;    /* messages of its connection */
	struct list unpaid;  /* unmatched, all here, and not paid back yet */
	struct list arrival; /* all unmatched, in order */
	struct list grant;   /* GRANTs and DONEs, or replies, of its
				connection */
	struct list user;    /* those of its region */
	struct o2g_region *region;
	struct o2g_knot by_source, by_any, by_id;
	struct o2g_knot masked_source, masked_any;
	struct o2g_conn *conn;	   /* 0: its connection ended, or self */
	struct o2g_op_entry *op;   /* who takes it */
	struct o2g_op_entry *send; /* self, by reference */
	u32 why;
	u32 source, context;
	u32 id;
	u32 cost; /* credit to give back */
	u8 rma;	  /* 0, O2G_OP_WRITE or O2G_OP_READ of a peer's */
	u8 has_data, requested, forget, moved, filling, slab_result;
	int status;
	u64 tag, data;
	u64 length;
	u64 arrived; /* bytes that came over the wire */
	u64 expect;  /* bytes that will have come */
	u64 take;    /* bytes for the receive */
	u64 address; /* of the program: there */
	u64 split;   /* bytes below go to `hold` */
	struct o2g_piece hold;
	u64 charged; /* against limits.unexpected */
	struct o2g_copy copy;
	u8 small[O2G_SMALL]; /* where a short body is held */
};

struct o2g_peer {
	struct o2g_conn *conn;
	struct list sends;    /* not yet planned, in order */
	struct list directed; /* posted receives from it */
	int named, self;
	int lost;	  /* 0 or -errno */
	int failing;	  /* what is left of it has still to fail */
	u32 next_failing; /* a peer, or O2G_NO_PEER */
};

struct o2g_slot { /* a planned frame */
	struct o2g_frame frame;
	struct o2g_op_entry *op;
	struct o2g_message *message; /* REPLY, DONE: what it answers */
	struct o2g_piece body;
	int last; /* of op */
};

struct o2g_region { /* memory that peers may access */
	struct o2g_knot knot;
	struct list link;  /* of the core */
	struct list users; /* WRITEs and READs under way */
	struct o2g_region_options is;
};

enum o2g_rx_state { O2G_RX_HEADER, O2G_RX_START, O2G_RX_BODY };

struct o2g_conn {
	struct o2g_core *core;
	void *host;
	struct list link; /* of the core */
	u64 serial;
	u32 peer;
	int ending; /* it is over: what is left of it fails so */

	enum o2g_rx_state rx;
	struct o2g_frame rx_frame;
	u32 rx_have; /* bytes of the header */
	u32 rx_left; /* bytes of the body */
	struct o2g_message *rx_message;
	struct o2g_op_entry *rx_op; /* or the READ whose REPLY it is */
	u64 rx_offer;		    /* bytes offered and not answered */
	int blocked, bye_in;
	u32 incomplete;	      /* messages with bytes to come */
	struct list messages; /* all that came over it */
	struct list unpaid;   /* those whose cost may go back early */
	struct list starving; /* of the core: much was held then */
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

struct o2g_class {
	u64 ignore;
	u32 directed, any; /* posted receives */
};

struct o2g_core {
	struct o2g_host host;
	struct o2g_limits limits;
	struct o2g_ring ring;
	struct o2g_pool ops, messages;
	struct o2g_table table;
	struct o2g_slab slab;
	struct list backlog;
	struct list conns;
	struct list endings;  /* conns of which something is left */
	struct list starving; /* conns to be paid once less is held */
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
	u8 *zeros;   /* O2G_BODY_MAX of them, once there was a region */
	u64 scanned; /* entries compared outside of the table */
	u64 rested;  /* scanned, when submissions were last read */
	u32 taken;   /* by multi-receives since then */
	/* A multi-receive that has not looked at all unmatched messages. */
	struct o2g_op_entry *searching;
	u64 mask;	/* unmatched messages are found under it too */
	u64 mask_tried; /* another, and what its searches cost */
	u64 mask_cost;
	int masked;
	u64 charged;
	u32 blocked;
	int completed, broken, stalled;
	int more, patient;
	u64 changes;
	struct o2g_counts counts;
};

/* match.c: pairs. */
int o2g_match_post(struct o2g_core *core, struct o2g_op_entry *op);
void o2g_match_unpost(struct o2g_core *core, struct o2g_op_entry *op);
struct o2g_op_entry *o2g_match_receive(struct o2g_core *core,
				       const struct o2g_message *message,
				       int any);
/* The sender of a held message got its number. */
void o2g_match_name(struct o2g_core *core, struct o2g_message *message);
void o2g_match_hold(struct o2g_core *core, struct o2g_message *message);
void o2g_match_unhold(struct o2g_core *core, struct o2g_message *message);
struct o2g_message *o2g_match_message(struct o2g_core *core, u32 peer,
				      u32 context, u64 tag, u64 ignore);

/* message.c: a message from its first frame to its completion. */
struct o2g_message *o2g_message_make(struct o2g_core *core,
				     struct o2g_conn *conn);
/* Matches it: 0, or -EAGAIN when it can't be held. */
int o2g_message_arrive(struct o2g_core *core, struct o2g_message *message);
void o2g_message_take(struct o2g_core *core, struct o2g_message *message,
		      struct o2g_op_entry *op);
void o2g_message_discard(struct o2g_core *core, struct o2g_message *message);
/* Where the next of `most` bytes goes, and how many: 0 or -EAGAIN. */
int o2g_message_place(struct o2g_core *core, struct o2g_message *message,
		      u64 most, struct o2g_piece *piece);
void o2g_message_came(struct o2g_core *core, struct o2g_message *message,
		      u64 length);
void o2g_message_granted(struct o2g_core *core, struct o2g_message *message);
void o2g_message_cut(struct o2g_core *core, struct o2g_message *message,
		     int status);
void o2g_message_keep(struct o2g_core *core, struct o2g_message *message);
void o2g_message_written(struct o2g_core *core, struct o2g_message *message);
/* Takes back what just arrived and can't be held. */
void o2g_message_undo(struct o2g_core *core, struct o2g_message *message);
/* Gives the memory back that the body was to be held in. */
void o2g_message_unhold(struct o2g_core *core, struct o2g_message *message);
void o2g_message_drop(struct o2g_core *core, struct o2g_message *message);
/* Frees it if there is no reason left for it. */
void o2g_message_settle(struct o2g_core *core, struct o2g_message *message);
/* Charges its record; -EAGAIN: too much is held. */
int o2g_message_charge(struct o2g_core *core, struct o2g_message *message);
/* Starts its copy: 0, O2G_COPY_LATER, or -errno; then goes on with it. */
int o2g_message_copy(struct o2g_core *core, struct o2g_message *message,
		     const struct o2g_piece *from, const struct o2g_piece *to);
void o2g_message_advance(struct o2g_core *core, struct o2g_message *message);

/* rma.c: remote memory access, of peers and of ours. */
/* A WRITE or READ whose header is here; 0: no memory. */
struct o2g_message *o2g_rma_begin(struct o2g_conn *conn);
/* All of a WRITE is where it belongs, or forgotten, or its copy is done. */
void o2g_rma_came(struct o2g_core *core, struct o2g_message *message);
/* The DONE of this message, or its next REPLY. */
void o2g_rma_answer(struct o2g_core *core, struct o2g_message *message);
void o2g_rma_self(struct o2g_core *core, struct o2g_op_entry *op,
		  struct o2g_message *message);
int o2g_rma_check(const struct o2g_core *core, const struct o2g_sqe *sqe);
/* What came for an operation of ours: 0 or -EPROTO. */
int o2g_rma_done(struct o2g_conn *conn, const struct o2g_frame *frame);
int o2g_rma_reply(struct o2g_conn *conn, const struct o2g_frame *frame);
/* All bytes of a WRITE went out. */
void o2g_rma_sent(struct o2g_conn *conn, struct o2g_op_entry *op);
/* The other side said BYE: nothing is answered any more. */
void o2g_rma_unanswered(struct o2g_conn *conn);
void o2g_region_free_all(struct o2g_core *core);

/* recv.c */
int o2g_recv_submit(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_peek(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_cancel(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_recv_discard(struct o2g_core *core, const struct o2g_sqe *sqe);
/* Goes on with the multi-receive that is searching, if there is one. */
void o2g_recv_go_on(struct o2g_core *core);
void o2g_recv_fail(struct o2g_core *core, struct o2g_op_entry *op, int status);

/* send.c */
int o2g_send_submit(struct o2g_core *core, const struct o2g_sqe *sqe);
void o2g_send_done(struct o2g_core *core, struct o2g_op_entry *op, int status);
void o2g_send_piece(const struct o2g_op_entry *op, u64 offset, u64 length,
		    struct o2g_piece *piece);
int o2g_send_granted(struct o2g_conn *conn, u32 id, u64 length);

/* rx.c: can early credit go back that could not when it was wanted? */
int o2g_rx_starves(const struct o2g_core *core);
/* Gives it; with limits.batch to one connection. */
void o2g_rx_forgive(struct o2g_core *core);

/* tx.c */
void o2g_tx_want(struct o2g_conn *conn);
void o2g_tx_owe(struct o2g_conn *conn, u32 cost);

/* done.c: completions. */
struct o2g_op_entry *o2g_op_make(struct o2g_core *core,
				 const struct o2g_sqe *sqe);
/* Completes with op->result.cqe and frees it. */
void o2g_op_complete(struct o2g_core *core, struct o2g_op_entry *op);
/* Refuses a submission for which that, or its message, had no place. */
int o2g_op_missing(struct o2g_core *core, const struct o2g_sqe *sqe);
void o2g_op_free(struct o2g_core *core, struct o2g_op_entry *op);
void o2g_result_put(struct o2g_core *core, struct o2g_result *result);
/* Writes those that wait, as far as there is room; with limits.batch some of
 * them: true when there may be room for more. */
int o2g_result_flush(struct o2g_core *core);
/* Completes a submission that has no operation: 0, or -EAGAIN for no room. */
int o2g_result_refuse(struct o2g_core *core, const struct o2g_sqe *sqe,
		      int status);

/* conn.c */
struct o2g_peer *o2g_peer_at(struct o2g_core *core, u32 peer);
/* Goes on with what connections and peers that are gone leave behind. */
void o2g_conn_go_on(struct o2g_core *core);
/* Is there some? */
int o2g_conn_remains(const struct o2g_core *core);

/* core.c */
/* Has this batch of submissions cost enough? */
int o2g_core_tired(const struct o2g_core *core);
/* Reads submissions now; their number, or -EPROTO. */
int o2g_core_read(struct o2g_core *core);
/* At the end of each piece of work: what the program has to kick for. */
void o2g_core_ask(struct o2g_core *core);

/* frame.c: is it well-formed, whatever the state? 0 or -EPROTO. */
int o2g_frame_check(const struct o2g_frame *frame);

#endif
