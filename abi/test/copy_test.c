/* SPDX-License-Identifier: MIT */
/*
 * Guest memory that goes away between abi's check and abi's access: the fault
 * handler asks abi_copy_resume, and the access reports what was not done.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "abi/test/guest.h"

#define PAGE SKEP_PAGE_SIZE

static u32 faults;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	u64 to = abi_copy_resume((u64)g[REG_RIP]);

	(void)sig, (void)info;
	if (!to)
		abort();
	faults++;
	g[REG_RIP] = (greg_t)to;
}

static void catch_faults(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

static void test_accesses(void)
{
	u8 *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u64 end = (u64)at + PAGE;
	u8 from[64] = {1, 2, 3};
	u32 value = 7;

	munmap(at + PAGE, PAGE);
	tap_ok(!abi_user_move(at, from, 64) && at[2] == 3 &&
		       abi_user_move((u8 *)end - 10, from, 64) == 54 &&
		       abi_user_move(from, (u8 *)end - 10, 64) == 54,
	       "a copy reports the bytes that it did not copy");
	tap_ok(!abi_user_zero(at, 64) && !at[2] &&
		       abi_user_zero((u8 *)end - 10, 64) == 54,
	       "zeroing reports the bytes that it did not zero");
	tap_ok(!abi_user_store((u64)at, 5) && !abi_user_load((u64)at, &value) &&
		       value == 5 && abi_user_store(end, 1) == -LINUX_EFAULT &&
		       abi_user_load(end, &value) == -LINUX_EFAULT,
	       "words are loaded and stored");
	value = 4;
	tap_ok(!abi_user_swap((u64)at, &value, 9) && value == 5 &&
		       abi_user_swap((u64)at, &value, 9) == 1 && at[0] == 9 &&
		       abi_user_swap(end, &value, 1) == -LINUX_EFAULT,
	       "words are compared and exchanged");
	tap_ok(faults == 6, "each fault is counted");
	tap_ok(!abi_copy_resume(0) && !abi_copy_resume((u64)test_accesses),
	       "a fault elsewhere is not recovered");
	munmap(at, PAGE);
}

/* The host takes a page away that abi's map still shows. */
static void test_calls(void)
{
	u64 gone = guest_map(PAGE, ABI_PROT_READ | ABI_PROT_WRITE);
	s32 fd[2];
	u32 i;

	munmap((void *)gone, PAGE);
	CALL(pipe2, page, 0);
	memcpy(fd, (void *)page, sizeof(fd));
	tap_ok(CALL(write, (u64)fd[1], gone, 8) == -LINUX_EFAULT &&
		       CALL(write, (u64)fd[1], page, 8) == 8 &&
		       CALL(read, (u64)fd[0], gone, 8) == -LINUX_EFAULT &&
		       CALL(read, (u64)fd[0], page, 9) == 8,
	       "a pipe stays usable after EFAULT");
	tap_ok(CALL(futex, gone, 0, 0, 0) == -LINUX_EFAULT &&
		       CALL(futex, page, 5, 1, 1, gone, 0) == -LINUX_EFAULT &&
		       CALL(futex, gone, 1, 1) == 0,
	       "a futex bucket is unlocked after EFAULT");
	tap_ok(CALL(open, gone, 0) == -LINUX_EFAULT &&
		       CALL(mincore, page, PAGE, gone) == -LINUX_EFAULT,
	       "EFAULT for unmapped names and vectors");
	for (i = 0; i < ABI_SET_POOL; i++)
		p->fds.set[i].used = 1;
	memset((void *)page, 0, 16);
	tap_ok(CALL(select, 0, 0, 0, 0, page) == 0,
	       "select over few descriptors needs no large set");
	tap_ok(CALL(select, 40, gone, 0, 0, page) == -LINUX_EFAULT,
	       "select reads its bits in one piece");
}

int main(void)
{
	catch_faults();
	test_accesses();
	guest_new();
	test_calls();
	return tap_done();
}
