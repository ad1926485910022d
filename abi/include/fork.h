/* SPDX-License-Identifier: MIT */
/*
 * fork(2) on a host with info.spawns: FORK with status 0 makes a copy. While
 * the host is in that call, all of abi's locks are held and no number below
 * changes. The host copies the guest's memory, what its handles stand for, and
 * the parts of struct abi_proc. Then FORKED, without locks, starts another
 * process of the substrate, which takes over the copy and calls
 * abi_fork_resume. Until FORKED returns, no handle that was copied is closed.
 */
#ifndef ABI_INCLUDE_FORK_H
#define ABI_INCLUDE_FORK_H

#include "abi.h"

/* Part `i` of struct abi_proc: its offset and length. 0: there are no more. All
 * other bytes of the copy are zero. */
int abi_fork_part(const struct abi_proc *p, u32 i, u64 *offset, u64 *len);

/* The handle of description `i`: -1 if it has none, -2 if there are no more. */
s32 abi_fork_handle(const struct abi_proc *p, u32 i);
/* The handle of descriptor number `fd`, or -1. */
s32 abi_fork_number(const struct abi_proc *p, u32 fd);

/*
 * In the new process, whose copy of struct abi_proc, handles and memory are
 * complete, by the thread that becomes guest thread 0. `pid`: its own. Then it
 * enters the guest at the registers of thread 0, with the vector registers of
 * abi_fork_vec.
 */
void abi_fork_resume(struct abi_proc *p, u32 pid);
const void *abi_fork_vec(const struct abi_proc *p);

#endif
