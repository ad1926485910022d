/* SPDX-License-Identifier: MIT */
/* The limits of a program that has set none. */
#ifndef ABI_PROC_LIMITS_H
#define ABI_PROC_LIMITS_H

#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define ABI_STACK_DEFAULT (8ull << 20)

static inline struct abi_rlimit abi_limit_first(u32 which)
{
	switch (which) {
	case ABI_RLIMIT_STACK:
		return (struct abi_rlimit){ABI_STACK_DEFAULT,
					   ABI_RLIM_INFINITY};
	case ABI_RLIMIT_CORE:
		return (struct abi_rlimit){0, 0};
	case ABI_RLIMIT_NOFILE:
		return (struct abi_rlimit){ABI_FD_MAX, ABI_FD_MAX};
	case ABI_RLIMIT_NPROC:
		return (struct abi_rlimit){ABI_THREADS_MAX, ABI_THREADS_MAX};
	default:
		return (struct abi_rlimit){ABI_RLIM_INFINITY,
					   ABI_RLIM_INFINITY};
	}
}

#endif
