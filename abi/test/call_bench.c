/* SPDX-License-Identifier: MIT */
/*
 * What abi itself costs for a call, without substrate and entry code, and what
 * the kernel costs for the same one, with its entry.
 */
#include "abi/test/internal.h"
#include "build/gen/abi/numbers.h"
#include "host_fake.h"
#include <stdio.h>
#include <unistd.h>

/* The kernel has no such call. */
#define NR_NONE 0xBEE

static u64 clock_ns(void)
{
	return (u64)fake.host.clock(ABI_CLOCK_MONOTONIC);
}

static void measure_call(struct abi_proc *p, const char *name, u64 nr,
			 u64 kernel_nr)
{
	u64 best = ~0ull, kernel = ~0ull, start, took;
	struct abi_regs regs = {0};
	u32 round, i;

	for (round = 0; round < 20; round++) {
		start = clock_ns();
		for (i = 0; i < 100000; i++)
			syscall((int)kernel_nr, 0);
		took = clock_ns() - start;
		kernel = took < kernel ? took : kernel;
		start = clock_ns();
		for (i = 0; i < 100000; i++) {
			regs.rax = nr;
			regs.rdi = 0;
			abi_syscall(p, 0, &regs);
		}
		took = clock_ns() - start;
		best = took < best ? took : best;
	}
	printf("abi-call %-12s %6.1f ns, the kernel %6.1f ns\n", name,
	       (double)best / 100000, (double)kernel / 100000);
}

int main(void)
{
	struct abi_proc *p = fake_proc();

	measure_call(p, "getpid", ABI_NR_getpid, ABI_NR_getpid);
	measure_call(p, "brk", ABI_NR_brk, ABI_NR_brk);
	measure_call(p, "refused", ABI_NR_fork, NR_NONE);
	fake_free(p);
	return 0;
}
