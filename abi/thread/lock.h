/* SPDX-License-Identifier: MIT */
/*
 * A small lock for abi's own data: never held during a wait that a guest can
 * cause, and never while guest code runs. Order: docs/design/abi.md.
 *
 * Three states as in "Futexes Are Tricky" (Drepper, 2011): 0 free, 1 locked, 2
 * locked and a thread may sleep. All zero is a free lock.
 */
#ifndef ABI_LOCK_H
#define ABI_LOCK_H

#include <skep/assert.h>

#include "abi/state/lock.h"

struct abi_proc;

void abi_lock_sleep(struct abi_proc *p, struct abi_lock *lock);
void abi_lock_wake(struct abi_proc *p, struct abi_lock *lock);

/* 1 if the lock was free; then the caller has locked it. */
static inline int abi_lock_try(struct abi_lock *lock)
{
	u32 free = 0;

	return __atomic_compare_exchange_n(&lock->word, &free, 1, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void abi_lock(struct abi_proc *p, struct abi_lock *lock)
{
	if (!abi_lock_try(lock))
		abi_lock_sleep(p, lock);
}

static inline void abi_unlock(struct abi_proc *p, struct abi_lock *lock)
{
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		abi_lock_wake(p, lock);
}

/* Asserts that some thread has locked it; lockdep_assert_held() also checks
 * that it is the caller. */
static inline void abi_assert_locked(const struct abi_lock *lock)
{
	skep_assert(__atomic_load_n(&lock->word, __ATOMIC_RELAXED));
	(void)lock;
}

#endif
