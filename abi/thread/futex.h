/* SPDX-License-Identifier: MIT */
/* Futex queues: hashed by guest address, waiters are thread indices. */
#ifndef ABI_FUTEX_H
#define ABI_FUTEX_H

#include <skep/types.h>

#define ABI_FUTEX_ANY 0xffffffffu /* bitset that matches all */

struct abi_proc;
struct abi_thread;

int abi_futexes_init(struct abi_proc *p);

/*
 * Waits while *gaddr == value. 0, -EAGAIN, -ETIMEDOUT, -EFAULT, or -EINTR if a
 * signal is deliverable.
 */
s64 abi_futex_wait(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
		   u32 value, u32 bitset, u64 deadline);
/* Wakes at most `count` waiters; returns how many. */
s64 abi_futex_wake(struct abi_proc *p, u64 gaddr, u32 count, u32 bitset);
/* Wakes one waiter, of any process if the word is shared; `t` is the caller. */
s64 abi_futex_wake_one(struct abi_proc *p, struct abi_thread *t, u64 gaddr);

/*
 * Priority-inheritance futexes, whose word contains the owner (futex_pi.c).
 * take: 0, -EAGAIN for a try, -EDEADLK, -ESRCH if the owner is not a thread,
 * -ETIMEDOUT. drop: -EPERM.
 */
s64 abi_futex_pi_take(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
		      u64 deadline, u32 try);
s64 abi_futex_pi_drop(struct abi_proc *p, struct abi_thread *t, u64 gaddr);
/* The same for words that other processes share (futex_owned.c). */
s64 abi_futex_owned_take(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
			 u64 deadline, u32 try);
s64 abi_futex_owned_drop(struct abi_proc *p, struct abi_thread *t, u64 gaddr);
/* `t` ends: passes the futexes that it owns to their waiters. */
void abi_futex_pi_end(struct abi_proc *p, struct abi_thread *t);

#endif
