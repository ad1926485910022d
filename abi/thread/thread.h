/* SPDX-License-Identifier: MIT */
/*
 * Guest threads: one record of plain data each, found by index (the host's name
 * for it) or by tid (the guest's).
 *
 * Parking. Every wait inside abi that is not a host->io_wait is a park: the
 * thread sleeps on its own word until a token is left there. A token only means
 * "check again": it may be left over from an earlier wait or come from a
 * signal. So a caller announces what it waits for, then loops: check, park,
 * check. The thread that makes the condition true does so before
 * abi_thread_unpark; the exchange on the word orders the two, so no wake-up is
 * lost. (The argument is that for the binary semaphore of a thread in
 * LockSupport, and in Drepper's "Futexes Are Tricky".)
 */
#ifndef ABI_THREAD_H
#define ABI_THREAD_H

#include "abi/include/abi.h"

struct abi_call;

int abi_threads_init(struct abi_proc *p);

/* The live thread with this tid, or NULL. */
struct abi_thread *abi_thread_find(struct abi_proc *p, u32 tid);

/*
 * Sleeps until there is a token. 0: check again; -ETIMEDOUT: the deadline
 * (CLOCK_MONOTONIC, ns) has passed without a token; -EINTR: a signal is
 * deliverable, only if `interruptible`.
 */
s64 abi_thread_park(struct abi_proc *p, struct abi_thread *t, u64 deadline,
		    int interruptible);
void abi_thread_unpark(struct abi_proc *p, struct abi_thread *t);

/* Around a wait in the host that is not a park: 1 before, 0 after it. */
void abi_thread_asleep(struct abi_thread *t, u32 asleep);
/* R, S or Z, as in /proc/PID/stat. */
char abi_thread_letter(const struct abi_thread *t);

/*
 * The deadline of a call that waits for `ns`. If the call is restarted after an
 * interruption without a handler, it is the first one's deadline.
 */
u64 abi_thread_deadline(struct abi_call *c, u64 ns);

/*
 * A new record in state STARTING; NULL if all are in use. Make it LIVE when it
 * is complete, or free it if its host thread did not start.
 */
struct abi_thread *abi_thread_new(struct abi_proc *p);
void abi_thread_live(struct abi_proc *p, struct abi_thread *t);
void abi_thread_undo(struct abi_proc *p, struct abi_thread *t);

/* -EPERM: `tp` cannot be a thread pointer. */
s64 abi_thread_tp_check(struct abi_proc *p, u64 tp);

/* Ends a thread; does not return. status: the argument of exit. */
void abi_thread_end(struct abi_proc *p, struct abi_thread *t, u32 status);
/*
 * Ends the process; `t` is the caller. status: as for wait(2). Does not return.
 * Other processes get only the robust futexes of `t`, because other threads
 * still run.
 */
void abi_thread_end_all(struct abi_proc *p, struct abi_thread *t, u32 status);

/* Logs once per process that a call would need a child process. */
s64 abi_thread_no_children(struct abi_proc *p, const char *name);

#endif
