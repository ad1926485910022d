/* SPDX-License-Identifier: MIT */
/*
 * A guest for abi's tests: guest memory, and system calls as its entry code
 * would make them. Threads are pthreads with abi's thread index.
 */
#ifndef ABI_TEST_GUEST_H
#define ABI_TEST_GUEST_H

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "abi/test/internal.h"
#include "abi/test/host_fake.h"
#include "build/gen/abi/numbers.h"
#include "tests/tap.h"

#define GUEST_FLAGS 0x202

static struct abi_proc *p;
static u64 page; /* 64 KiB of guest memory, readable and writable */
static u64 text; /* a page of executable guest memory */

/* Where host->proc_exit goes when a test expects the process to end. */
static jmp_buf guest_end;

__attribute__((unused, noreturn)) static void guest_end_jump(u32 status)
{
	fake.exit_status = status;
	fake.exited++;
	longjmp(guest_end, 1);
}

__attribute__((unused)) static u64 u64_at(u64 gaddr)
{
	return *(u64 *)gaddr;
}

__attribute__((unused)) static u32 u32_at(u64 gaddr)
{
	return *(u32 *)gaddr;
}

__attribute__((unused)) static struct abi_regs guest_regs(void)
{
	struct abi_regs r;

	memset(&r, 0, sizeof(r));
	r.rsp = page + 0xe000;
	r.rip = text + 0x100;
	r.rflags = GUEST_FLAGS;
	return r;
}

__attribute__((unused)) static s64 guest_call_at(u32 t, struct abi_regs *r,
						 u32 nr, const u64 *a)
{
	r->rax = nr;
	r->rdi = a[0];
	r->rsi = a[1];
	r->rdx = a[2];
	r->r10 = a[3];
	r->r8 = a[4];
	r->r9 = a[5];
	abi_syscall(p, t, r);
	return (s64)r->rax;
}

/* A call of thread `t` whose registers do not matter. */
#define CALL_AT(t, nr, ...)                                                    \
	__extension__({                                                        \
		struct abi_regs regs_ = guest_regs();                          \
		guest_call_at(t, &regs_, ABI_NR_##nr, (u64[6]){__VA_ARGS__});  \
	})
#define CALL(nr, ...) CALL_AT(0, nr, __VA_ARGS__)

__attribute__((unused)) static u64 guest_map(u64 len, u32 prot)
{
	struct abi_regs r;
	s64 addr;

	memset(&r, 0, sizeof(r));
	addr = guest_call_at(0, &r, ABI_NR_mmap,
			     (u64[6]){0, len, prot, 0x22, ~0ull, 0});
	if (addr < 0) {
		printf("Bail out! mmap gave %lld\n", addr);
		exit(99);
	}
	return (u64)addr;
}

__attribute__((unused)) static void guest_new(void)
{
	p = fake_proc();
	page = guest_map(0x10000, ABI_PROT_READ | ABI_PROT_WRITE);
	text = guest_map(SKEP_PAGE_SIZE, ABI_PROT_READ | ABI_PROT_EXEC);
}

__attribute__((unused)) static void guest_free(void)
{
	fake_free(p);
}

__attribute__((unused)) static u64 guest_now(u32 clock)
{
	return (u64)fake.host.clock(clock);
}

/* Waits until `condition` holds; 0 after ten seconds. */
#define WAIT_FOR(condition)                                                    \
	__extension__({                                                        \
		u64 until_ = guest_now(ABI_CLOCK_MONOTONIC) + 10 * ABI_NS;     \
		while (!(condition) &&                                         \
		       guest_now(ABI_CLOCK_MONOTONIC) < until_)                \
			sched_yield();                                         \
		!!(condition);                                                 \
	})

/* A new abi thread as clone makes it, without a host thread. */
__attribute__((unused)) static struct abi_thread *guest_thread(void)
{
	struct abi_thread *t = abi_thread_new(p);

	if (t)
		abi_thread_live(p, t);
	return t;
}

#endif
