/* SPDX-License-Identifier: MIT */
/* What abi itself costs for a call: no substrate, no entry code. */
#include "abi/test/internal.h"
#include "build/gen/abi/numbers.h"
#include "host_fake.h"
#include <stdio.h>

static u64 clock_ns(void)
{
	return (u64)fake.host.clock(ABI_CLOCK_MONOTONIC);
}

static void measure_call(struct abi_proc *p, const char *name, u64 nr, u64 arg)
{
	u64 best = ~0ull, start, took;
	struct abi_regs regs = {0};
	u32 round, i;

	for (round = 0; round < 20; round++) {
		start = clock_ns();
		for (i = 0; i < 100000; i++) {
			regs.rax = nr;
			regs.rdi = arg;
			abi_syscall(p, 0, &regs);
		}
		took = clock_ns() - start;
		best = took < best ? took : best;
	}
	printf("abi-call %-12s %6.1f ns\n", name, (double)best / 100000);
}

int main(void)
{
	struct abi_proc *p = fake_proc();

	measure_call(p, "getpid", ABI_NR_getpid, 0);
	measure_call(p, "brk", ABI_NR_brk, 0);
	measure_call(p, "refused", ABI_NR_fork, 0);
	fake_free(p);
	return 0;
}
