/* SPDX-License-Identifier: MIT */
/* Placeholder until its owner writes it. */
#ifndef ABI_SIGNAL_H
#define ABI_SIGNAL_H

#include "lock.h"

struct abi_signals {
	struct abi_lock lock;
};

#endif
