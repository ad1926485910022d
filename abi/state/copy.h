/* SPDX-License-Identifier: MIT */
/* How the child of a fork begins, on hosts that copy a process themselves. */
#ifndef ABI_STATE_COPY_H
#define ABI_STATE_COPY_H

#include <skep/types.h>
#include "abi/include/vec.h"

/* Written by the thread that forks, under all locks. */
struct abi_copy {
	u32 thread; /* its index; its registers are in its record */
	u32 busy;   /* atomic: a fork is not over */
	u64 flags, stack, child_tid, tls; /* of clone(2) */
	_Alignas(64) u8 vec[ABI_VEC_AREA];
};

#endif
