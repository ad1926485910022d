/* SPDX-License-Identifier: MIT */
/*
 * The child of a vfork on hosts that lend the caller's thread to it: what it
 * has of its own until it executes a program or ends. Everything else, memory
 * above all, is the parent's.
 */
#ifndef ABI_STATE_VFORK_H
#define ABI_STATE_VFORK_H

#include "abi/include/abi.h"
#include "fds.h"
#include "signals.h"
#include "abi/include/vec.h"

#define ABI_RLIMITS 16

struct abi_rlimit {
	u64 cur, max;
};

struct abi_vfork {
	u32 thread; /* index + 1 of the thread that is the child; 0: none.
		       Atomic; the fields below are that thread's */
	u32 pid;
	struct abi_slot slot[ABI_FD_MAX];
	struct abi_sigaction action[ABI_SIGNALS];
	u64 blocked;
	char cwd[ABI_PATH_MAX];
	u32 umask;
	struct abi_rlimit limit[ABI_RLIMITS];
	/* What the parent continues with. */
	struct abi_regs regs;
	u64 mask;
	_Alignas(64) u8 vec[ABI_VEC_AREA];
};

#endif
