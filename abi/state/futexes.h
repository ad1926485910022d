/* SPDX-License-Identifier: MIT */
/* Queues of waiters, hashed by guest address. */
#ifndef ABI_STATE_FUTEXES_H
#define ABI_STATE_FUTEXES_H

#include <skep/types.h>
#include "lock.h"

#define ABI_FUTEX_BUCKETS 256

struct abi_futex_bucket {
	struct abi_lock lock; /* guards the list and its waiters' places */
	u32 head, tail;	      /* thread indices or ABI_NONE */
};

struct abi_futexes {
	struct abi_lock pi_lock; /* before threads.lock */
	u64 pi_ticket;
	struct abi_futex_bucket bucket[ABI_FUTEX_BUCKETS];
};

#endif
