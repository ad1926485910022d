/* SPDX-License-Identifier: MIT */
/* What a thread can wait for; abi/poll/wait.h has the protocol. */
#ifndef ABI_STATE_EVENT_H
#define ABI_STATE_EVENT_H

#include <skep/types.h>

#define ABI_WAITER_WORDS 16 /* threads that can wait: 64 for each word */

/*
 * Something for whose changes a thread can wait: a bit for each waiting thread,
 * and how often input and output have become possible (the edges of epoll).
 * wait.c has the protocol. Atomic.
 */
struct abi_event {
	u64 waiters[ABI_WAITER_WORDS];
	u32 edge_in, edge_out;
	u32 spent; /* an edge was reported, and the next one was not seen */
};

#endif
