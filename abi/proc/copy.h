/* SPDX-License-Identifier: MIT */
/* fork(2): what processes share must be the host's; and on hosts with
 * info.spawns: what can be copied. */
#ifndef ABI_PROC_COPY_H
#define ABI_PROC_COPY_H

#include <skep/types.h>

#include "abi/state/fds.h"

struct abi_proc;

/* All pipes, socket pairs and eventfds become the host's. 0 or a negative
 * errno. */
s64 abi_copy_share(struct abi_proc *p);
/* Under all locks: whether there is one that is not. */
int abi_copy_left(struct abi_proc *p);

/* One fork at a time; no lock is held. */
void abi_copy_begin(struct abi_proc *p);

/* Before the locks: changes what the child could not share as it is, and waits
 * for the child of a vfork. 0 or a negative errno. */
s64 abi_copy_prepare(struct abi_proc *p);
/* Under all locks: 0; 1: something has changed, so start over; or a negative
 * errno, after the reason was logged once. */
s64 abi_copy_check(struct abi_proc *p);
/* A bit for each description that the child takes over: under all locks, they
 * get a reference, which abi_copy_end drops. */
#define ABI_COPY_HELD ((ABI_DESC_MAX + 63) / 64)
void abi_copy_hold(struct abi_proc *p, u64 *held);
void abi_copy_end(struct abi_proc *p, const u64 *held);

#endif
