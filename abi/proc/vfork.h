/* SPDX-License-Identifier: MIT */
/*
 * vfork(2) without a copy, on hosts with info.spawns. The calling thread
 * becomes the child, and the parent again when the child executes a program or
 * ends. The child has descriptors, limits, umask, working directory, signal
 * handlers and mask of its own; memory is the parent's, as vfork(2) says. Other
 * threads of the parent run on.
 */
#ifndef ABI_PROC_VFORK_H
#define ABI_PROC_VFORK_H

#include "own.h"

struct abi_call;

/* 0: the caller is the child now, with the stack `stack` if that is not 0. */
s64 abi_vfork_begin(struct abi_call *c, u64 stack);
/* The child has executed a program: the caller is the parent again. Returns the
 * child's pid. */
s64 abi_vfork_finish(struct abi_call *c);
/* The child ends, as with abi_vfork_end. */
s64 abi_vfork_exit(struct abi_call *c, u32 status);
/* kill(2) by the child. 1: it is not about the child itself. */
s64 abi_vfork_kill(struct abi_call *c, u64 pid, u64 signo);

#endif
