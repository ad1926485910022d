/* SPDX-License-Identifier: MIT */
/*
 * Faults of the program's own: SIGSEGV with its siginfo and registers, left by
 * siglongjmp, by an edited instruction pointer, and by mending the page;
 * SIGFPE, SIGILL and SIGTRAP; then SIGSEGV in two threads at once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "say.h"

static __thread sigjmp_buf out;
static __thread siginfo_t seen;
static __thread volatile int depth;

static void on_fault_jump(int signo, siginfo_t *info, void *context)
{
	(void)context;
	seen = *info;
	siglongjmp(out, signo);
}

static void on_fault_skip(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	seen = *info;
	seen.si_signo = signo;
	uc->uc_mcontext.gregs[REG_RAX] = uc->uc_mcontext.gregs[REG_RDI] + 1;
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_RBX];
	depth++;
}

static void on_fault_mend(int signo, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~4095ul;

	(void)context;
	depth += signo;
	mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

static void install_handler(int signo,
			    void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(signo, &sa, NULL);
}

/* Load from `at` with rdi = 41; the handler continues at label 1. */
static long faulting_load(const volatile void *at)
{
	long rax = 0, rdi = 41;

	__asm__ volatile("lea 1f(%%rip), %%rbx\n\t"
			 "mov (%2), %0\n\t"
			 "ud2\n"
			 "1:"
			 : "+a"(rax), "+D"(rdi)
			 : "r"(at)
			 : "rbx", "memory", "cc");
	return rax;
}

static void check_segv(char *page)
{
	char *volatile low = (char *)24;

	install_handler(SIGSEGV, on_fault_jump);
	if (sigsetjmp(out, 1) == 0)
		*(volatile char *)(page + 100) = 1;
	CHECK(seen.si_signo == SIGSEGV && seen.si_addr == page + 100);
	CHECK(seen.si_code == SEGV_ACCERR);
	if (sigsetjmp(out, 1) == 0)
		*(volatile char *)low = 1;
	CHECK(seen.si_addr == (void *)24 && seen.si_code == SEGV_MAPERR);
	install_handler(SIGSEGV, on_fault_skip);
	CHECK(faulting_load(page + 8) == 42);
	CHECK(seen.si_addr == page + 8 && depth == 1);
	install_handler(SIGSEGV, on_fault_mend);
	depth = 0;
	*(volatile char *)(page + 5) = 77;
	CHECK(page[5] == 77 && depth == SIGSEGV);
}

static void check_others(void)
{
	volatile int zero = 0, one = 1;
	int signo;

	install_handler(SIGFPE, on_fault_jump);
	install_handler(SIGILL, on_fault_jump);
	install_handler(SIGTRAP, on_fault_jump);
	signo = sigsetjmp(out, 1);
	if (signo == 0)
		one = one / zero;
	CHECK(signo == SIGFPE && seen.si_code == FPE_INTDIV);
	signo = sigsetjmp(out, 1);
	if (signo == 0)
		__asm__ volatile("ud2");
	CHECK(signo == SIGILL);
	signo = sigsetjmp(out, 1);
	if (signo == 0)
		__asm__ volatile("int3");
	CHECK(signo == SIGTRAP);
}

/* A jump through a null pointer: rip itself is bad. */
static void check_jump(void)
{
	void (*volatile function)(void) = NULL;
	int signo;

	install_handler(SIGSEGV, on_fault_jump);
	signo = sigsetjmp(out, 1);
	if (signo == 0)
		function();
	CHECK(signo == SIGSEGV && seen.si_addr == NULL);
}

static void *run_thread(void *arg)
{
	volatile intptr_t i, good = 0;

	for (i = 0; i < 50; i++) {
		if (sigsetjmp(out, 1) == 0)
			*(volatile char *)arg = 1;
		good += seen.si_addr == arg;
		seen.si_addr = NULL;
	}
	return (void *)good;
}

int main(void)
{
	char *page = mmap(NULL, 4096 * 3, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t threads[2];
	void *good[2];
	int i;

	check_segv(page);
	check_others();
	check_jump();
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_thread,
			       page + 4096 * (i + 1));
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], &good[i]);
	CHECK(good[0] == (void *)50 && good[1] == (void *)50);
	return say_done();
}
