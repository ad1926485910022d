// SPDX-License-Identifier: MIT
/*
 * The old vsyscall page: three calls at fixed addresses, which old programs
 * use. Kernels that have it execute them, with their own clock; elsewhere the
 * call is a fault that is handled here. No state.
 */
#include "vsyscall.h"
#include "call.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/state/proc.h"

#define PAGE_AT 0xffffffffff600000ull
#define APART 0x400

/* As Linux: a result that cannot be stored is a fault at the call. */
int abi_vsyscall(struct abi_proc *p, struct abi_thread *t,
		 struct abi_regs *regs)
{
	static abi_handler *const handler[] = {abi_sys_gettimeofday,
					       abi_sys_time, abi_sys_getcpu};
	struct abi_call c = {.p = p, .t = t, .regs = regs};
	u64 which = (regs->rip - PAGE_AT) / APART, back;
	s64 rc;

	if (regs->rip < PAGE_AT || regs->rip % APART || which > 2 ||
	    ABI_GET(p, &back, regs->rsp))
		return 0;
	c.a[0] = regs->rdi;
	c.a[1] = regs->rsi;
	c.a[2] = regs->rdx;
	rc = handler[which](&c);
	if (rc == -LINUX_EFAULT)
		return 0;
	regs->rax = (u64)rc;
	regs->rsp += 8;
	regs->rip = back;
	return 1;
}
