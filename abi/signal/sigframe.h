/* SPDX-License-Identifier: MIT */
/* The frame of a signal handler on the program's stack. */
#ifndef ABI_SIGNAL_SIGFRAME_H
#define ABI_SIGNAL_SIGFRAME_H

#include "abi/include/siginfo.h"

struct abi_sigaction;

struct abi_delivery {
	const struct abi_siginfo *info;
	const struct abi_sigaction *action;
	const struct abi_fault *fault; /* or NULL */
	u64 mask;		       /* to restore when the handler returns */
	u32 again; /* number of the call to restart, or ABI_NONE */
};
/* 0, or -EFAULT if there is no room for the frame. */
s64 abi_sigframe_push(struct abi_proc *p, struct abi_thread *t,
		      struct abi_regs *regs, const struct abi_delivery *d);
/* 0, or -EFAULT if there is no valid frame. *again as in abi_delivery. */
s64 abi_sigframe_pop(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u32 *again);

#endif
