/* SPDX-License-Identifier: MIT */
/*
 * execve: the substrate executes itself with the new program. abi writes a file
 * with the head, `state` bytes for abi_exec_resume, and the argc and envc
 * strings with their NULs.
 */
#ifndef ABI_INCLUDE_EXEC_H
#define ABI_INCLUDE_EXEC_H

#include "abi.h"

struct abi_exec_head {
	u32 size;  /* of the whole state, this head included */
	u32 child; /* the process is a child of fork */
	u32 argc, envc;
	u32 numbers; /* number of descriptors */
	u32 strings; /* bytes of all strings */
};

/*
 * Called after abi_exec instead of abi_fd_attach: restores descriptors,
 * signals, limits and the working directory of the process that called execve.
 * 0, or -EINVAL.
 */
int abi_exec_resume(struct abi_proc *p, const void *state, u64 len);

/* The descriptor number and the handle of record `i`; -1: it has none. */
s32 abi_exec_number(const void *state, u32 i);
s32 abi_exec_handle(const void *state, u32 i);
const char *abi_exec_cwd(const void *state);

#endif
