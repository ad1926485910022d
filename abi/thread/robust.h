/* SPDX-License-Identifier: MIT */
/* Robust futexes: what the end of a thread or process releases. */
#ifndef ABI_ROBUST_H
#define ABI_ROBUST_H

#include "abi/include/abi.h"

/* Wakes one waiter at a word; `t` is the caller. */
typedef s64 (*abi_robust_wake)(struct abi_proc *p, struct abi_thread *t,
			       u64 gaddr);

/* `t` ends, and is the caller. */
void abi_robust_walk(struct abi_proc *p, struct abi_thread *t,
		     abi_robust_wake wake);

/*
 * A thread has a robust list; the process has writable memory that others
 * share. After both the host watches the end of the process, host->robust.
 */
void abi_robust_listed(struct abi_proc *p);
void abi_robust_shared(struct abi_proc *p);

#endif
