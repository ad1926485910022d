/* SPDX-License-Identifier: MIT */
/* File locks: fcntl's commands, and their release when a number is closed. */
#ifndef ABI_FILELOCK_H
#define ABI_FILELOCK_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

/* F_GETLK, F_SETLK, F_SETLKW and the F_OFD_ commands. */
s64 abi_filelock_control(struct abi_call *c, struct abi_desc *d, u32 command);
/* A number of `d` was closed: drops the process's record locks on its file. */
void abi_filelock_close(struct abi_proc *p, struct abi_desc *d);
/* 1: `d` must stay open at the host, because the process may have locks on its
 * file. */
int abi_filelock_park(struct abi_proc *p, struct abi_desc *d);

#endif
