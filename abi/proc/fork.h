/* SPDX-License-Identifier: MIT */
/* clone(2) of a process. */
#ifndef ABI_PROC_FORK_H
#define ABI_PROC_FORK_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

s64 abi_fork_clone(struct abi_call *c);
/* The host keeps the position of a file from here on; d->lock is held. */
void abi_fork_share(struct abi_proc *p, struct abi_desc *d);

#endif
