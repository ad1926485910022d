/* SPDX-License-Identifier: MIT */
/* Calls of the old vsyscall page. */
#ifndef ABI_VSYSCALL_H
#define ABI_VSYSCALL_H

#include "abi/include/abi.h"

struct abi_thread;

/* 1: the fault at regs->rip was such a call, and the call was executed. */
int abi_vsyscall(struct abi_proc *p, struct abi_thread *t,
		 struct abi_regs *regs);

#endif
