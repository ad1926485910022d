/* SPDX-License-Identifier: MIT */
/*
 * Guest threads: one record of plain data each, found by index (the host's
 * name for it) or by tid (the guest's).
 *
 * Parking. Every wait inside abi that is not a host->io_wait is a park: the
 * thread sleeps on its own word until somebody leaves a token there. A token
 * says "look again", nothing more: it may be left over from an earlier wait
 * or come from a signal. A caller therefore publishes what it waits for,
 * then loops: look, park, look. Whoever makes the condition true does so
 * before abi_thread_unpark; the exchange on the word orders the two, so no
 * wake-up is lost (the same argument as for the binary semaphore of a thread
 * in LockSupport or in Drepper's "Futexes Are Tricky").
 */
#ifndef ABI_THREAD_H
#define ABI_THREAD_H

#include "abi/include/abi.h"
#include "abi/proc/call.h"
#include "lock.h"

#define ABI_THREADS_MAX 1024
#define ABI_NONE 0xffffffffu  /* no thread, no queue entry */
#define ABI_AFFINITY_WORDS 16 /* 1024 CPUs */

enum abi_thread_state {
	ABI_THREAD_FREE,
	ABI_THREAD_STARTING, /* clone fills it in; no signal finds it */
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
	u32 ending;  /* it takes and waits for nothing any more */
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

struct abi_threads {
	struct abi_lock lock;
	u32 live;	 /* not counting those that exited */
	u32 cursor;	 /* where the search for a free index starts */
	u32 high;	 /* one more than the highest index ever used; atomic */
	u32 main_status; /* exit code of thread 0, once it exited */
	u32 said_children, said_pi; /* log lines that were written */
	s32 nice;		    /* of setpriority; atomic */
	struct abi_thread thread[ABI_THREADS_MAX];
};

struct abi_thread *abi_thread_get(struct abi_proc *p, u32 index);
/* The live thread with this tid, or NULL. */
struct abi_thread *abi_thread_find(struct abi_proc *p, u32 tid);

/*
 * Sleep until a token comes. 0: look again; -ETIMEDOUT: the deadline
 * (CLOCK_MONOTONIC, ns) passed and no token was there; -EINTR: only when
 * `interruptible`, a signal is deliverable.
 */
s64 abi_thread_park(struct abi_proc *p, struct abi_thread *t, u64 deadline,
		    int interruptible);
void abi_thread_unpark(struct abi_proc *p, struct abi_thread *t);

/*
 * The deadline of a call that waits for `ns` from now. When the call runs
 * again after an interruption without a handler, it is the first one's.
 */
u64 abi_thread_deadline(struct abi_call *c, u64 ns);

/*
 * A fresh record in state STARTING; NULL: all are busy. Make it LIVE when it
 * is complete, or take it back when its host thread did not start.
 */
struct abi_thread *abi_thread_new(struct abi_proc *p);
void abi_thread_live(struct abi_proc *p, struct abi_thread *t);
void abi_thread_undo(struct abi_proc *p, struct abi_thread *t);

/* Runs the end of a thread; does not return. status: the argument of exit. */
void abi_thread_end(struct abi_proc *p, struct abi_thread *t, u32 status);
/* Ends the process. status: as for wait(2). Does not return. */
void abi_thread_end_all(struct abi_proc *p, u32 status);

/* One log line, once per process: a call that would need a child process. */
s64 abi_thread_no_children(struct abi_proc *p, const char *name);

#endif
