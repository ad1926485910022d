/* SPDX-License-Identifier: MIT */
/* clone(2) of a process. */
#ifndef ABI_PROC_FORK_H
#define ABI_PROC_FORK_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

s64 abi_fork_clone(struct abi_call *c);
/* From now on the host keeps the position of the file. The caller holds
 * d->lock. */
void abi_fork_share(struct abi_proc *p, struct abi_desc *d);

#endif
