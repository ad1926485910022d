/* SPDX-License-Identifier: MIT */
/* File locks: fcntl's commands, and their release when a number is closed. */
#ifndef ABI_FILELOCK_H
#define ABI_FILELOCK_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_file_id;
struct abi_proc;

/* F_GETLK, F_SETLK, F_SETLKW and the F_OFD_ commands. */
s64 abi_filelock_control(struct abi_call *c, struct abi_desc *d, u32 command);
/* A number of `d` was closed: drops the process's record locks on its file. */
void abi_filelock_close(struct abi_proc *p, struct abi_desc *d);
/*
 * execve closes descriptors, and thereby drops the record locks of their files.
 * Stores a handle for each such file in `closed` (ABI_LOCKED_FILES of them),
 * and the other files with record locks in `kept`. Returns the number of
 * handles.
 */
u32 abi_filelock_exec(struct abi_proc *p, s32 *closed, struct abi_file_id *kept,
		      u32 *kept_count);
/* 1: `d` must stay open at the host, because the process may have locks on its
 * file. */
int abi_filelock_park(struct abi_proc *p, struct abi_desc *d);

#endif
