/* SPDX-License-Identifier: MIT */
#ifndef ABI_SPACE_H
#define ABI_SPACE_H

#include <skep/types.h>
#include "lock.h"

struct abi_space {
	struct abi_lock lock;
};

#endif
