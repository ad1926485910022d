/* SPDX-License-Identifier: MIT */
/* A message from its first frame to its completion. */
#ifndef O2G_CORE_MESSAGE_H
#define O2G_CORE_MESSAGE_H

#include <skep/assert.h>

#include "atomic.h"
#include "match.h"
#include "message_state.h"

#define O2G_SMALL 64	     /* bodies that are stored in the message itself */
#define O2G_SELF_COPY 0x4000 /* largest message to oneself that is copied */

enum o2g_message_kind {
	O2G_MSG_EAGER, /* its body is sent immediately */
	O2G_MSG_REQUEST,
	O2G_MSG_WRITE, /* these are accesses, by a peer or to oneself */
	O2G_MSG_READ,
	O2G_MSG_ATOMIC
};

/* Whether a REQUEST without a matching receive has been granted. */
enum o2g_invitation { O2G_UNINVITED, O2G_INVITING, O2G_INVITED };

/* The messages that arrived over one connection. */
struct o2g_inbox {
	struct list messages; /* all messages */
	/* those whose credit may be returned early */
	struct list early_credit;
	u32 incomplete;		     /* number of messages with bytes missing */
	struct o2g_message *reading; /* the message whose bytes come next */
	/* bytes that rx_want offered and rx_done has not answered */
	u64 offered;
};

struct o2g_region; /* rma.h */

struct o2g_message {
	struct o2g_member member;
	struct o2g_result result;
	struct o2g_envelope envelope;
	struct list here; /* in inbox->messages */
	struct list
		early_credit; /* unmatched, complete, credit not returned yet */
	/* in the connection's grants (GRANT, DONE) or replies */
	struct list grant;
	struct list user; /* in region->users */
	struct list turn; /* in core->atomics or core->uninvited */
	struct o2g_region *region;
	struct o2g_knot by_id;
	/* 0 after its connection ended, or for self */
	struct o2g_inbox *inbox;
	struct o2g_op_entry *op; /* the receive that matched it */
	/* to oneself: the send whose buffer it refers to */
	struct o2g_op_entry *send;
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
	u64 take;    /* bytes that the receive gets */
	u64 address; /* where they go in the program's memory */
	u64 split;   /* bytes below go to `buffer` */
	struct o2g_piece buffer;
	u64 charged; /* part of limits.unexpected that it uses */
	struct o2g_copy copy;
	u8 small[O2G_SMALL]; /* `buffer` of a short body */
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

/* Whether an access returns data to the peer. */
static inline int o2g_message_replies(const struct o2g_message *message)
{
	return message->kind == O2G_MSG_READ ||
	       (message->kind == O2G_MSG_ATOMIC &&
		o2g_atomic_fetches(message->atomic));
}

/* `inbox` is 0 for a message to the endpoint itself. */
struct o2g_message *o2g_message_make(struct o2g_core *core,
				     struct o2g_inbox *inbox, u32 source);
/* Matches the message: 0, or -EAGAIN if there is no memory to buffer it. */
int o2g_message_arrive(struct o2g_core *core, struct o2g_message *message);
/* The unmatched message that matches this receive, or 0. */
struct o2g_message *o2g_message_find(struct o2g_core *core,
				     const struct o2g_op_entry *op);
void o2g_message_match(struct o2g_core *core, struct o2g_message *message,
		       struct o2g_op_entry *op);
/* Afterwards the message is found only by its handle. */
void o2g_message_claim(struct o2g_core *core, struct o2g_message *message);
void o2g_message_discard(struct o2g_core *core, struct o2g_message *message);
/* Called when its sender has been named. */
void o2g_message_name(struct o2g_core *core, struct o2g_message *message,
		      u32 source);
/* Where the next bytes go, and how many, up to `most`: 0 or -EAGAIN. */
int o2g_message_place(struct o2g_core *core, struct o2g_message *message,
		      u64 most, struct o2g_piece *piece);
void o2g_message_receive(struct o2g_core *core, struct o2g_message *message,
			 u64 length);
/* The message's GRANT, or the DONE of an access, was planned or sent. */
void o2g_message_granted(struct o2g_core *core, struct o2g_message *message);
/* Grants unmatched REQUESTs for which there is memory; with limits.batch only
 * one. */
void o2g_message_invite(struct o2g_core *core);
static inline int o2g_message_inviting(const struct o2g_core *core)
{
	return !list_empty(&core->uninvited) &&
	       core->charged < core->limits.invited;
}
/* Called when its connection has ended. */
void o2g_message_cut(struct o2g_core *core, struct o2g_message *message,
		     int status);
/* Copies the body of a message to oneself into memory of the core, if there is
 * enough. */
void o2g_message_buffer(struct o2g_core *core, struct o2g_message *message);
/* Called when its completion was written. */
void o2g_message_written(struct o2g_core *core, struct o2g_result *result);
/* Reverses the arrival of a message that cannot be buffered. */
void o2g_message_undo(struct o2g_core *core, struct o2g_message *message);
/* Frees the memory in which the body was to be buffered. */
void o2g_message_unbuffer(struct o2g_core *core, struct o2g_message *message);
void o2g_message_drop(struct o2g_core *core, struct o2g_message *message);
/* Frees the message if it is complete and nothing refers to it. */
void o2g_message_settle(struct o2g_core *core, struct o2g_message *message);
/* Charges the message's record; -EAGAIN if too much is buffered. */
int o2g_message_charge(struct o2g_core *core, struct o2g_message *message);
/* Charges and allocates `bytes` of the core's memory: 0 or -EAGAIN. */
int o2g_message_store(struct o2g_core *core, struct o2g_message *message,
		      u64 bytes);
/* Starts a copy: 0, O2G_COPY_LATER, or -errno. */
int o2g_message_copy(struct o2g_core *core, struct o2g_message *message,
		     const struct o2g_piece *from, const struct o2g_piece *to);
void o2g_message_copied(struct o2g_core *core, struct o2g_message *message,
			int status);
void o2g_message_advance(struct o2g_core *core, struct o2g_message *message);

#endif
