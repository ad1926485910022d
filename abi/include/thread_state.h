/* SPDX-License-Identifier: MIT */
/*
 * The record of one thread: plain data. abi/thread/thread.h has its functions.
 * A substrate reads state, affinity and park; sms schedules by them.
 */
#ifndef ABI_INCLUDE_THREAD_STATE_H
#define ABI_INCLUDE_THREAD_STATE_H

#include "abi.h"

#define ABI_THREADS_MAX 1024
#define ABI_NONE 0xffffffffu  /* no thread, no queue entry */
#define ABI_AFFINITY_WORDS 16 /* 1024 CPUs */

enum abi_thread_state {
	ABI_THREAD_FREE,
	ABI_THREAD_STARTING, /* clone is filling it in; no signals yet */
	ABI_THREAD_LIVE,
	ABI_THREAD_EXITED, /* the index is in use until abi_thread_gone */
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
	u32 owner;   /* the tid for which it waits */
	u32 granted; /* it owns the word now */
	u32 ending;  /* it ends: acquires no more locks */
	u64 shared;  /* the word of other processes too that it waits for, or 0
		      */
};

struct abi_thread {
	u32 state; /* enum abi_thread_state, guarded by threads.lock; atomic */
	u32 index;
	u32 tid;    /* written under threads.lock */
	u32 uses;   /* how often this index was used */
	u32 park;   /* enum abi_park_word, atomic */
	u32 asleep; /* waits in the host, not in a park; atomic */

	/* Written by the thread itself, or before it starts: */
	struct abi_regs regs; /* with which it starts */
	u64 tp;		      /* FS base as the guest sees it */
	u64 clear_child_tid;
	u64 robust_head;
	u64 alt_sp, alt_size;
	u32 alt_flags;
	char comm[16];
	u64 affinity[ABI_AFFINITY_WORDS]; /* under threads.lock */
	u64 calls;			  /* system calls made */

	/* Signals. Guarded by signals.lock; pending is also read without it. */
	u64 blocked;	   /* written by the thread itself, under the lock */
	u64 saved_blocked; /* the mask that the call in progress has replaced */
	u32 restore_blocked;
	u64 sigwait; /* sigtimedwait waits for these */
	u64 pending;
	u32 queue; /* first entry of signals.entry, or ABI_NONE */

	/* The call in progress, if it is restarted after a signal: */
	u32 again;  /* restarted without a handler in between */
	u32 nointr; /* after a handler returns -EINTR, also with SA_RESTART */
	u32 full;   /* all registers were changed before the restart */
	u32 rerun;  /* rt_sigreturn restarts the call whose number is in rax */
	u32 redo;   /* a freeze has ended the call: abi_tick makes it again */
	u64 again_deadline;

	struct abi_futex_wait futex;
	struct abi_pi_wait pi;
};

#endif
