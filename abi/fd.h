/* SPDX-License-Identifier: MIT */
/* Placeholder until its owner writes it. */
#ifndef ABI_FD_H
#define ABI_FD_H

#include "lock.h"

struct abi_fds {
	struct abi_lock lock;
};

#endif
