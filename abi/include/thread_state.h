/* SPDX-License-Identifier: MIT */
/*
 * The record of one thread: plain data. abi/thread/thread.h has what is done
 * with it; a substrate reads state, affinity and park (sms schedules by them).
 */
#ifndef ABI_INCLUDE_THREAD_STATE_H
#define ABI_INCLUDE_THREAD_STATE_H

#include "abi.h"

#define ABI_THREADS_MAX 1024
#define ABI_NONE 0xffffffffu  /* no thread, no queue entry */
#define ABI_AFFINITY_WORDS 16 /* 1024 CPUs */

enum abi_thread_state {
	ABI_THREAD_FREE,
	ABI_THREAD_STARTING, /* clone fills it in; it receives no signal yet */
	ABI_THREAD_LIVE,
	ABI_THREAD_EXITED, /* the index is busy until abi_thread_gone */
};

/* The word a thread sleeps on. */
enum abi_park_word {
	ABI_PARK_NONE,	 /* no token, not asleep */
	ABI_PARK_TOKEN,	 /* the next park returns at once */
	ABI_PARK_ASLEEP, /* in host->wait, or about to be */
};

/* A thread's place in a futex queue; guarded by the lock of its bucket. */
struct abi_futex_wait {
	u32 queued; /* atomic: 1 from queueing until woken or withdrawn */
	u32 bucket; /* atomic; a requeue changes it while holding both locks */
	u64 key;    /* guest address */
	u32 bitset;
	u32 next, prev; /* thread indices or ABI_NONE */
};

/* A thread in FUTEX_LOCK_PI; guarded by pi_lock, granted is atomic. */
struct abi_pi_wait {
	u64 gaddr; /* of the word it waits for, or 0 */
	u64 ticket;
	u32 owner;   /* tid that it waits for */
	u32 granted; /* the word is its own now */
	u32 ending;  /* it acquires no more locks and waits for none */
};

struct abi_thread {
	u32 state; /* enum abi_thread_state, guarded by threads.lock; atomic */
	u32 index;
	u32 tid;  /* written under threads.lock */
	u32 uses; /* how often this index was handed out */
	u32 park; /* enum abi_park_word, atomic */

	/* Written by the thread itself, or before it starts. */
	struct abi_regs regs; /* to start with */
	u64 tp;		      /* FS base as the guest sees it */
	u64 clear_child_tid;
	u64 robust_head;
	u64 alt_sp, alt_size;
	u32 alt_flags;
	char comm[16];
	u64 affinity[ABI_AFFINITY_WORDS]; /* under threads.lock */
	u64 calls;			  /* system calls made */

	/* Signals: guarded by signals.lock; pending is also read without. */
	u64 blocked;	   /* written by the thread itself, under the lock */
	u64 saved_blocked; /* what the call in progress replaced */
	u32 restore_blocked;
	u64 sigwait; /* sigtimedwait waits for these */
	u64 pending;
	u32 queue; /* first entry of signals.entry, or ABI_NONE */

	/* The call in progress, for one that runs again after a signal. */
	u32 again;  /* it runs again without a handler in between */
	u32 nointr; /* it does so behind any handler, SA_RESTART or not */
	u32 full;   /* all registers changed before it ran again */
	u32 rerun;  /* rt_sigreturn asks for the call that rax names */
	u64 again_deadline;

	struct abi_futex_wait futex;
	struct abi_pi_wait pi;
};

#endif
