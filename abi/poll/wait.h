/* SPDX-License-Identifier: MIT */
/*
 * How a thread waits for things inside abi, for host handles, or for both.
 *
 *   waiter                               whoever changes an object
 *   abi_wait_begin (how it will sleep)   changes it, under its lock
 *   abi_event_join (sets its bit)        abi_event_signal:
 *   looks whether it is ready               reads the bits,
 *   abi_wait_sleep                          wakes each thread found there
 *   abi_event_leave, and looks again
 *
 * Bits and changes are ordered (sequentially consistent, or by the object's
 * lock): either the waiter sees the change when it looks, or the changer sees
 * the bit. A wake that comes before the sleep makes the sleep return at once,
 * because both kinds of sleep remember one wake. A spurious wake-up is
 * harmless: every waiter checks again.
 */
#ifndef ABI_WAIT_H
#define ABI_WAIT_H

#include "abi/include/host.h"
#include "abi/state/event.h"

struct abi_call;
struct abi_proc;

#define ABI_EDGE_IN 1
#define ABI_EDGE_OUT 2

/* parked: the thread waits only for objects inside abi, which is cheaper. */
void abi_wait_begin(struct abi_call *c, u32 parked);
void abi_event_join(struct abi_call *c, struct abi_event *e);
void abi_event_leave(struct abi_call *c, struct abi_event *e);

/*
 * Call it after abi_wait_begin; list only if not parked. 0: check again
 * (revents are set), -ETIMEDOUT, or -EINTR if a signal is pending for the
 * thread.
 */
s64 abi_wait_sleep(struct abi_call *c, struct abi_poll *list, u32 count,
		   u64 deadline_ns);

/* Wakes the waiters: there is new input or space, or (edges 0) something else
 * has changed. */
void abi_event_signal(struct abi_proc *p, struct abi_event *e, u32 edges);

/*
 * A call has read input or found none, or has found no space: for a host handle
 * the next readiness counts as a new edge. Cheap if EPOLLET is not used.
 */
void abi_event_rearm(struct abi_proc *p, struct abi_event *e, u32 edges);

/*
 * Waits for one of `events` on a host handle. 0; -EINTR; -ETIMEDOUT. Handles
 * spurious kicks.
 */
s64 abi_wait_handle(struct abi_call *c, s32 handle, u32 events,
		    u64 deadline_ns);

/* now + ns without overflow; ABI_FOREVER for 0 or if the sum is too large. */
u64 abi_wait_deadline(struct abi_proc *p, u64 ns);

#endif
