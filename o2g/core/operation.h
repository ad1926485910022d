/* SPDX-License-Identifier: MIT */
/* Operations of the program, and their completions. */
#ifndef O2G_CORE_OPERATION_H
#define O2G_CORE_OPERATION_H

#include "endpoint.h"

/* A completion inside an operation or a message. */
struct o2g_result {
	struct list link; /* in core->backlog */
	struct o2g_cqe cqe;
	u8 of_message;
};

enum o2g_op_state {
	O2G_RECV_POSTED = 1,
	O2G_RECV_MATCHED,   /* of a multi-receive: its buffer is full */
	O2G_RECV_SEARCHING, /* core->searching: a multi-receive, not posted */
	O2G_SEND_QUEUED,    /* no frame of it is planned */
	O2G_SEND_REQUESTED,
	O2G_SEND_BODY,	 /* its MESSAGE or pieces are or were planned */
	O2G_SEND_SELF,	 /* a message refers to its buffer */
	O2G_RMA_WAITING, /* a WRITE or ATOMIC that was sent */
	O2G_RMA_READING, /* a READ that was planned */
	O2G_OP_DONE
};

struct o2g_op_entry {
	struct o2g_member member; /* a send's id is its number + 1 */
	struct o2g_result result;
	struct list link; /* peer's sends; receives with other masks */
	struct list turn; /* long bodies; a peer's directed receives */
	struct o2g_knot key, cookie_key;
	u8 op, flags, state, class;
	u8 waited, answered; /* WRITE: its DONE arrived before o2g_tx_done() */
	u32 peer, context;
	u64 tag, ignore, address, length, data, cookie;
	u64 sequence; /* order of posting */
	/* send: bytes in planned frames, bytes to send */
	u64 planned, end;
	struct o2g_conn *conn; /* send: the connection of its frames */
	u64 filled;	       /* multi: bytes matched; READ: bytes received */
	u32 filling;	       /* multi: number of incomplete messages */
	int closing;	       /* multi: its status when these are complete */
};

struct o2g_op_entry *o2g_op_make(struct o2g_core *core,
				 const struct o2g_sqe *sqe);
/* Writes op->result.cqe and frees the operation. */
void o2g_op_complete(struct o2g_core *core, struct o2g_op_entry *op);
/* Completes a send or an access; if it has O2G_QUIET, without an event. */
void o2g_op_finish(struct o2g_core *core, struct o2g_op_entry *op, int status);
/* Sets `piece` to these bytes of the operation's buffer. */
void o2g_op_piece(const struct o2g_op_entry *op, u64 offset, u64 length,
		  struct o2g_piece *piece);
/* Completes a submission for which there is no operation or message. */
int o2g_op_missing(struct o2g_core *core, const struct o2g_sqe *sqe);
void o2g_op_free(struct o2g_core *core, struct o2g_op_entry *op);

void o2g_result_put(struct o2g_core *core, struct o2g_result *result);
/* Writes waiting completions while there is space; with limits.batch only some.
 * Returns true if there may be space for more. */
int o2g_result_flush(struct o2g_core *core);
/* Completes a submission that has no operation: 0, or -EAGAIN if there is no
 * space. */
int o2g_result_refuse(struct o2g_core *core, const struct o2g_sqe *sqe,
		      int status);

#endif
