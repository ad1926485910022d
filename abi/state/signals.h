/* SPDX-License-Identifier: MIT */
/* Signals: actions, and what is pending. */
#ifndef ABI_STATE_SIGNALS_H
#define ABI_STATE_SIGNALS_H

#include "abi/include/siginfo.h"
#include "lock.h"

#define ABI_SIGNALS 64	      /* numbers 1 to 64 */
#define ABI_SIGNAL_QUEUE 1024 /* entries in one process */
#define ABI_SIGNAL_RT 32      /* the first real-time signal */

/* The guest's layout: the kernel's struct sigaction of x86-64. */
struct abi_sigaction {
	u64 handler, flags, restorer, mask;
};
SKEP_ASSERT_SIZE(struct abi_sigaction, 32);

/* One queued signal; a list per thread and one for the process. */
struct abi_sigentry {
	struct abi_siginfo info;
	u32 next; /* index or ABI_NONE */
};

struct abi_signals {
	struct abi_lock lock;
	u64 pending; /* for the process; also read without the lock */
	u32 queue;
	u32 free;      /* first free entry */
	u32 said_kill; /* a thread is logging the last message */
	struct abi_sigaction action[ABI_SIGNALS]; /* [signo - 1] */
	struct abi_sigentry entry[ABI_SIGNAL_QUEUE];
};

#endif
