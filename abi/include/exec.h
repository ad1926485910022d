/* SPDX-License-Identifier: MIT */
/*
 * execve, by which the substrate starts itself again with the new program. abi
 * writes this file: the head, `state` bytes that abi_exec_resume reads, and
 * argc and then envc strings with their NULs.
 */
#ifndef ABI_INCLUDE_EXEC_H
#define ABI_INCLUDE_EXEC_H

#include "abi.h"

struct abi_exec_head {
	u32 size;  /* of the whole state, this head included */
	u32 child; /* the process came of a fork */
	u32 argc, envc;
	u32 numbers; /* descriptors in it */
	u32 strings; /* bytes of all strings */
};

/*
 * After abi_exec, in place of abi_fd_attach: descriptors, signals, limits and
 * the working directory of the process that called execve. 0, or -EINVAL.
 */
int abi_exec_resume(struct abi_proc *p, const void *state, u64 len);

/* The number and the handle of record `i`; -1: it has none. */
s32 abi_exec_number(const void *state, u32 i);
s32 abi_exec_handle(const void *state, u32 i);
const char *abi_exec_cwd(const void *state);

#endif
