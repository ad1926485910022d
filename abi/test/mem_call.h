/* SPDX-License-Identifier: MIT */
/* System calls on memory, as a guest's thread 0 would make them. */
#ifndef ABI_TEST_MEM_CALL_H
#define ABI_TEST_MEM_CALL_H

#include "abi/test/internal.h"
#include "build/gen/abi/numbers.h"

static struct abi_proc *p;

static s64 make_call(u64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	struct abi_regs regs = {.rax = nr,
				.rdi = a,
				.rsi = b,
				.rdx = c,
				.r10 = d,
				.r8 = e,
				.r9 = f};

	abi_syscall(p, 0, &regs);
	return (s64)regs.rax;
}

#define MMAP(a, l, pr, fl, fd, off)                                            \
	make_call(ABI_NR_mmap, a, l, pr, fl, fd, off)
#define CALL(nr, a, b, c) make_call(ABI_NR_##nr, a, b, c, 0, 0, 0)

#endif
