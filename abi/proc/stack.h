/* SPDX-License-Identifier: MIT */
/* The initial stack of a program. */
#ifndef ABI_STACK_H
#define ABI_STACK_H

#include "abi/include/abi.h"

/*
 * Fills [top - size, top) from the top: strings, random bytes, auxv, envp,
 * argv, argc; sets thread 0's registers. -E2BIG if argv and envp are larger
 * than a quarter of the stack (execve(2)) or 6 MiB.
 */
int abi_stack_build(struct abi_proc *p, const struct abi_exec *exec, u64 top,
		    u64 size);

#endif
