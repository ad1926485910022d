/* SPDX-License-Identifier: MIT */
/*
 * Faults on a stack with little room, or none: what lies below the stack
 * pointer stays as it is. With an argument: a stack overflow without a handler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 4096
#define FILL 0x5a

static void skip_fault(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	uc->uc_mcontext.gregs[REG_RAX] = signo;
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_RBX];
}

/* One fault with the stack pointer at `rsp`; the signal that came. */
static long fault_at(uint64_t rsp)
{
	long signo = 0;

	__asm__ volatile("lea 1f(%%rip), %%rbx\n\t"
			 "mov %%rsp, %%r12\n\t"
			 "mov %1, %%rsp\n\t"
			 "mov 24, %0\n"
			 "1:\n\t"
			 "mov %%r12, %%rsp"
			 : "+a"(signo)
			 : "r"(rsp)
			 : "rbx", "r12", "memory", "cc");
	return signo;
}

static int is_filled(const uint8_t *p)
{
	int i;

	for (i = 0; i < PAGE; i++)
		if (p[i] != FILL)
			return 0;
	return 1;
}

static void *run_faults(void *arg)
{
	static const int room[] = {0, 8, 128, 512, 1024, 2048, 4096};
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t ss = {.ss_sp = malloc(65536), .ss_size = 65536};
	intptr_t good = 0;
	unsigned int i, round;

	(void)arg;
	page += PAGE;
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	memset(page, FILL, PAGE);
	sigaltstack(&ss, NULL);
	for (round = 0; round < 5; round++)
		for (i = 0; i < sizeof(room) / sizeof(room[0]); i++)
			good += fault_at((uint64_t)page + room[i]) == SIGSEGV &&
				is_filled(page);
	return (void *)good;
}

__attribute__((noinline)) static int recurse_down(int n)
{
	volatile char block[4096];

	block[0] = n;
	return n == -1 ? 0 : recurse_down(n + 1) + block[0];
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_sigaction = skip_fault,
			       .sa_flags = SA_SIGINFO | SA_ONSTACK};
	pthread_t threads[2];
	void *good;
	int i;

	(void)argv;
	if (argc > 1)
		return recurse_down(0);
	sigaction(SIGSEGV, &sa, NULL);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_faults, NULL);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &good);
		printf("%d faults left the stack alone\n", (int)(intptr_t)good);
	}
	return 0;
}
