/* SPDX-License-Identifier: MIT */
/*
 * A system call in progress. It is on the host stack of the calling thread;
 * nothing keeps a pointer to it after the call.
 */
#ifndef ABI_CALL_H
#define ABI_CALL_H

#include "abi/include/abi.h"

struct abi_thread;

struct abi_call {
	struct abi_proc *p;
	struct abi_thread *t;
	struct abi_regs *regs; /* as the guest left them; rax: the number */
	u64 a[6];	       /* arguments: rdi rsi rdx r10 r8 r9 */
	enum abi_return how;   /* FAST on entry; FULL: regs are complete */
	u32 counted;	       /* this refusal is in abi_proc.refused */
};

/*
 * A handler, named abi_sys_<name>. dispatch stores its result, a value or a
 * negative errno, in rax unless the handler has set how to FULL.
 */
typedef s64 abi_handler(struct abi_call *c);

/* -ENOSYS for a call that this host lacks: logged once by name, and counted. */
s64 abi_call_refuse(struct abi_call *c);

/* Makes the call again that a freeze has ended; regs are as at its start. */
enum abi_return abi_call_redo(struct abi_proc *p, struct abi_thread *t,
			      struct abi_regs *regs);

/* The prototypes of all handlers, made from syscalls.tbl. */
#include "build/gen/abi/sys.h"

#endif
