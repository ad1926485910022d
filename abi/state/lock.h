/* SPDX-License-Identifier: MIT */
/* The word of a lock; abi/thread/lock.h describes its values. */
#ifndef ABI_STATE_LOCK_H
#define ABI_STATE_LOCK_H

#include <skep/types.h>

struct abi_lock {
	u32 word;
};

#endif
