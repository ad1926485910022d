/* SPDX-License-Identifier: MIT */
/* Operations of the program, and their completions. */
#ifndef O2G_CORE_OPERATION_H
#define O2G_CORE_OPERATION_H

#include "endpoint.h"

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
	O2G_RMA_WAITING, /* a WRITE or ATOMIC that went out */
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
	u8 waited, answered; /* a WRITE's DONE arrived before it was out */
	u32 peer, context;
	u64 tag, ignore, address, length, data, cookie;
	u64 sequence;	       /* of posting */
	u64 planned, end;      /* send: bytes in frames, bytes to send */
	struct o2g_conn *conn; /* send: where frames of it went */
	u64 filled;	       /* multi: given to messages; READ: here */
	u32 filling;	       /* multi: messages not completed */
	int closing;	       /* multi: ends so when they are */
};

struct o2g_op_entry *o2g_op_make(struct o2g_core *core,
				 const struct o2g_sqe *sqe);
/* Completes with op->result.cqe and frees it. */
void o2g_op_complete(struct o2g_core *core, struct o2g_op_entry *op);
/* Completes a send or an access; with O2G_QUIET without an event. */
void o2g_op_finish(struct o2g_core *core, struct o2g_op_entry *op, int status);
/* The place of these bytes of it. */
void o2g_op_piece(const struct o2g_op_entry *op, u64 offset, u64 length,
		  struct o2g_piece *piece);
/* Fails a submission for lack of an operation or of a message. */
int o2g_op_missing(struct o2g_core *core, const struct o2g_sqe *sqe);
void o2g_op_free(struct o2g_core *core, struct o2g_op_entry *op);

void o2g_result_put(struct o2g_core *core, struct o2g_result *result);
/* Writes those that wait, as far as there is room; with limits.batch some of
 * them: true when there may be room for more. */
int o2g_result_flush(struct o2g_core *core);
/* Completes a submission that has no operation: 0, or -EAGAIN for no room. */
int o2g_result_refuse(struct o2g_core *core, const struct o2g_sqe *sqe,
		      int status);

#endif
