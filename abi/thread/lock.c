/* SPDX-License-Identifier: MIT */
/* The slow paths of abi's lock: a short spin, then the host's wait and wake. */
#include "lock.h"
#include "abi/state/proc.h"

#define SPINS 64

void abi_lock_sleep(struct abi_proc *p, struct abi_lock *lock)
{
	u32 i;

	for (i = 0; i < SPINS; i++) {
		if (!__atomic_load_n(&lock->word, __ATOMIC_RELAXED) &&
		    abi_lock_try(lock))
			return;
		__builtin_ia32_pause();
	}
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE))
		p->host->wait(&lock->word, 2, ABI_FOREVER);
}

void abi_lock_wake(struct abi_proc *p, struct abi_lock *lock)
{
	p->host->wake(&lock->word, 1);
}
