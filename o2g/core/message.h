/* SPDX-License-Identifier: MIT */
/* A message from its first frame to its completion. */
#ifndef O2G_CORE_MESSAGE_H
#define O2G_CORE_MESSAGE_H

#include <skep/assert.h>

#include "atomic.h"
#include "match.h"
#include "message_state.h"

#define O2G_SMALL 64	     /* bodies that need no memory of their own */
#define O2G_SELF_COPY 0x4000 /* messages to oneself, copied up to this */

enum o2g_message_kind {
	O2G_MSG_EAGER, /* its body is sent with it */
	O2G_MSG_REQUEST,
	O2G_MSG_WRITE, /* accesses, of a peer's or to oneself */
	O2G_MSG_READ,
	O2G_MSG_ATOMIC
};

/* A REQUEST that no receive matches, and its GRANT. */
enum o2g_invitation { O2G_UNINVITED, O2G_INVITING, O2G_INVITED };

/* The messages that arrived over one connection. */
struct o2g_inbox {
	struct list messages;	     /* all of them */
	struct list early_credit;    /* those whose cost may go back early */
	u32 incomplete;		     /* messages with bytes to come */
	struct o2g_message *reading; /* whose bytes come next */
	u64 offered;		     /* bytes placed but not answered */
};

struct o2g_region; /* rma.h */

struct o2g_message {
	struct o2g_member member;
	struct o2g_result result;
	struct o2g_envelope envelope;
	struct list here; /* messages of its connection */
	struct list
		early_credit; /* unmatched, complete, credit not returned yet */
	struct list grant;    /* GRANTs and DONEs, or replies, of its
				 connection */
	struct list user;     /* those of its region */
	struct list turn;     /* atomic accesses that wait for another one;
				 unmatched REQUESTs, for memory */
	struct o2g_region *region;
	struct o2g_knot by_id;
	struct o2g_inbox *inbox;   /* 0: its connection ended, or self */
	struct o2g_op_entry *op;   /* its receive */
	struct o2g_op_entry *send; /* self, by reference */
	u32 id;
	u32 cost; /* credit to return */
	u32 atomic;
	u8 state; /* enum o2g_message_state */
	u8 kind;  /* enum o2g_message_kind */
	u8 has_data;
	u8 invited; /* enum o2g_invitation */
	int status;
	u64 data;
	u64 length;
	u64 arrived; /* bytes received */
	u64 expect;  /* bytes expected */
	u64 take;    /* bytes for the receive */
	u64 address; /* of the program: there */
	u64 split;   /* bytes below go to `buffer` */
	struct o2g_piece buffer;
	u64 charged; /* against limits.unexpected */
	struct o2g_copy copy;
	u8 small[O2G_SMALL]; /* where a short body is buffered */
};

static inline int o2g_message_is(const struct o2g_message *message, u32 facts)
{
	return o2g_message_facts[message->state] & facts;
}

static inline void o2g_message_step(struct o2g_message *message,
				    enum o2g_message_event event)
{
	const u8 to = o2g_message_steps[event][message->state];

	skep_assert(to != O2G_MSG_NONE);
	if (to != O2G_MSG_NONE)
		message->state = to;
}

static inline int o2g_message_is_access(const struct o2g_message *message)
{
	return message->kind >= O2G_MSG_WRITE;
}

/* Does a peer's access bring bytes back? */
static inline int o2g_message_replies(const struct o2g_message *message)
{
	return message->kind == O2G_MSG_READ ||
	       (message->kind == O2G_MSG_ATOMIC &&
		o2g_atomic_fetches(message->atomic));
}

/* `inbox` 0: to the endpoint itself. */
struct o2g_message *o2g_message_make(struct o2g_core *core,
				     struct o2g_inbox *inbox, u32 source);
/* Matches it: 0, or -EAGAIN without memory to buffer it. */
int o2g_message_arrive(struct o2g_core *core, struct o2g_message *message);
/* The unmatched message that this receive gets, or 0. */
struct o2g_message *o2g_message_find(struct o2g_core *core,
				     const struct o2g_op_entry *op);
void o2g_message_match(struct o2g_core *core, struct o2g_message *message,
		       struct o2g_op_entry *op);
/* From now on only its handle finds it. */
void o2g_message_claim(struct o2g_core *core, struct o2g_message *message);
void o2g_message_discard(struct o2g_core *core, struct o2g_message *message);
/* Its sender has been named. */
void o2g_message_name(struct o2g_core *core, struct o2g_message *message,
		      u32 source);
/* Where the next of `most` bytes goes, and how many: 0 or -EAGAIN. */
int o2g_message_place(struct o2g_core *core, struct o2g_message *message,
		      u64 most, struct o2g_piece *piece);
void o2g_message_receive(struct o2g_core *core, struct o2g_message *message,
			 u64 length);
/* Its GRANT, or the DONE of an access, is planned or sent. */
void o2g_message_granted(struct o2g_core *core, struct o2g_message *message);
/* Grants unmatched REQUESTs for which there is memory now; with limits.batch
 * one. */
void o2g_message_invite(struct o2g_core *core);
static inline int o2g_message_inviting(const struct o2g_core *core)
{
	return !list_empty(&core->uninvited) &&
	       core->charged < core->limits.invited;
}
/* Its connection has ended. */
void o2g_message_cut(struct o2g_core *core, struct o2g_message *message,
		     int status);
/* To oneself: copies the body to memory of the core, if there is some. */
void o2g_message_buffer(struct o2g_core *core, struct o2g_message *message);
/* Its completion is written. */
void o2g_message_written(struct o2g_core *core, struct o2g_result *result);
/* Undoes the arrival of a message that can't be buffered. */
void o2g_message_undo(struct o2g_core *core, struct o2g_message *message);
/* Frees the memory in which the body was to be buffered. */
void o2g_message_unbuffer(struct o2g_core *core, struct o2g_message *message);
void o2g_message_drop(struct o2g_core *core, struct o2g_message *message);
/* Frees it if it is complete and released. */
void o2g_message_settle(struct o2g_core *core, struct o2g_message *message);
/* Charges its record; -EAGAIN: too much is buffered. */
int o2g_message_charge(struct o2g_core *core, struct o2g_message *message);
/* Charges and allocates memory of the core for so many bytes: 0 or -EAGAIN. */
int o2g_message_store(struct o2g_core *core, struct o2g_message *message,
		      u64 bytes);
/* Starts its copy: 0, O2G_COPY_LATER, or -errno; then goes on with it. */
int o2g_message_copy(struct o2g_core *core, struct o2g_message *message,
		     const struct o2g_piece *from, const struct o2g_piece *to);
void o2g_message_copied(struct o2g_core *core, struct o2g_message *message,
			int status);
void o2g_message_advance(struct o2g_core *core, struct o2g_message *message);

#endif
