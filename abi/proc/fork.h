/* SPDX-License-Identifier: MIT */
/* clone(2) of what is no thread. */
#ifndef ABI_PROC_FORK_H
#define ABI_PROC_FORK_H

#include <skep/types.h>

struct abi_call;

s64 abi_fork_clone(struct abi_call *c);

#endif
