/* SPDX-License-Identifier: MIT */
/* Placeholder until its owner writes it. */
#ifndef ABI_THREAD_H
#define ABI_THREAD_H

#include "lock.h"

struct abi_threads {
	struct abi_lock lock;
};

#endif
