/* SPDX-License-Identifier: MIT */
/* fork(2) on hosts with info.spawns: what can be copied. */
#ifndef ABI_PROC_COPY_H
#define ABI_PROC_COPY_H

#include <skep/types.h>

struct abi_proc;

/* Before the locks: changes what the child could not share as it is, and waits
 * for the child of a vfork. 0 or a negative errno. */
s64 abi_copy_prepare(struct abi_proc *p);
/* Under all locks: 0; 1: something has changed, so start over; or a negative
 * errno, after the reason was logged once. */
s64 abi_copy_check(struct abi_proc *p);

#endif
