/* SPDX-License-Identifier: MIT */
/* Placeholder until its owner writes it. */
#ifndef ABI_FUTEX_H
#define ABI_FUTEX_H

#include "lock.h"

struct abi_futexes {
	struct abi_lock lock;
};

#endif
