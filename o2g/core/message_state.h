/* SPDX-License-Identifier: MIT */
/*
 * The states of a message and their transitions, as one table; drawn in
 * docs/design/o2g.md. A state says who owns the message, whether bytes are
 * missing, whether a copy is in progress, and whether a frame must answer it.
 */
#ifndef O2G_CORE_MESSAGE_STATE_H
#define O2G_CORE_MESSAGE_STATE_H

#include <skep/types.h>

enum o2g_message_state {
	O2G_MSG_NONE, /* marks a transition that is not allowed */
	O2G_MSG_NEW,
	O2G_MSG_NEW_ARRIVING,
	O2G_MSG_UNEXPECTED,
	O2G_MSG_UNEXPECTED_ARRIVING,
	O2G_MSG_UNEXPECTED_BUFFERING,
	O2G_MSG_CLAIMED,
	O2G_MSG_CLAIMED_ARRIVING,
	O2G_MSG_CLAIMED_BUFFERING,
	O2G_MSG_MATCHED,
	O2G_MSG_MATCHED_ARRIVING,
	O2G_MSG_MATCHED_GRANTING, /* bytes arrive after the GRANT */
	O2G_MSG_MATCHED_BUFFERING,
	O2G_MSG_MATCHED_COPYING,
	O2G_MSG_MATCHED_COPYING_ARRIVING,
	O2G_MSG_MATCHED_COPIED,
	O2G_MSG_MATCHED_COPIED_ARRIVING,
	O2G_MSG_MATCHED_ANSWERING,
	O2G_MSG_DISCARDED_ARRIVING,
	O2G_MSG_DISCARDED_BUFFERING,
	O2G_MSG_REPLYING,
	O2G_MSG_ANSWERING,
	O2G_MSG_RESULT,
	O2G_MSG_RESULT_ANSWERING,
	O2G_MSG_DONE,
	O2G_MSG_STATES
};

enum o2g_message_event {
	O2G_MSG_OPEN,	  /* the header has arrived, the body has not */
	O2G_MSG_QUEUE,	  /* no posted receive matches */
	O2G_MSG_MATCH,	  /* a receive matches; every access matches */
	O2G_MSG_CLAIM,	  /* the program gets a handle to it */
	O2G_MSG_DISCARD,  /* the program discards it */
	O2G_MSG_RECEIVED, /* no more bytes will arrive */
	O2G_MSG_REPLY,	  /* READ: data is to be sent back */
	O2G_MSG_ANSWER,	  /* a GRANT or DONE is to be sent */
	O2G_MSG_ANSWERED, /* it was sent */
	O2G_MSG_BUFFER,	  /* to oneself: the body is copied to the core */
	O2G_MSG_BUFFERED,
	O2G_MSG_COPY, /* copies to the receive, or performs an access */
	O2G_MSG_COPIED,
	O2G_MSG_COMPLETE, /* the receive or access has ended */
	O2G_MSG_WAIT,	  /* the completion in the message waits */
	O2G_MSG_WRITTEN,  /* that completion was written */
	O2G_MSG_CUT,	  /* its connection ended */
	O2G_MSG_EVENTS
};

/* Properties of a state. */
#define O2G_IS_UNEXPECTED 0x1 /* in the index of unexpected messages */
#define O2G_IS_CLAIMED 0x2
#define O2G_IS_MATCHED 0x4
#define O2G_IS_DISCARDED 0x8
#define O2G_IS_ARRIVING 0x10
#define O2G_IS_BUFFERING 0x20
#define O2G_IS_COPYING 0x40
#define O2G_IS_COPIED 0x80
#define O2G_IS_ANSWERING 0x100 /* a GRANT or DONE is to be sent */
#define O2G_IS_REPLYING 0x200
#define O2G_IS_RESULT 0x400

extern const u16 o2g_message_facts[O2G_MSG_STATES];
extern const u8 o2g_message_steps[O2G_MSG_EVENTS][O2G_MSG_STATES];

#endif
