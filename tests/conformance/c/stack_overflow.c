/* SPDX-License-Identifier: MIT */
/* A stack overflow is handled on the alternate stack. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include "say.h"

#define SIZE 65536

static char *stack;
static volatile int inside, flags;
static sigjmp_buf out;

static void on_signal(int signo)
{
	char here = signo;
	stack_t now;

	inside = &here >= stack && &here < stack + SIZE;
	sigaltstack(NULL, &now);
	flags = now.ss_flags;
}

static void on_overflow(int signo)
{
	on_signal(signo);
	siglongjmp(out, 1);
}

__attribute__((noinline)) static int recurse_down(int n)
{
	volatile char block[4096];

	block[0] = n;
	if (n == -1)
		return 0;
	return recurse_down(n + 1) + block[0];
}

static void *overflow_thread(void *arg)
{
	char *own = malloc(SIZE);
	stack_t ss = {.ss_sp = own, .ss_size = SIZE};

	stack = own;
	sigaltstack(&ss, NULL);
	if (sigsetjmp(out, 1) == 0)
		recurse_down(0);
	return arg;
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_overflow,
			       .sa_flags = SA_ONSTACK};
	pthread_attr_t attr;
	pthread_t thread;

	sigaction(SIGSEGV, &sa, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_create(&thread, &attr, overflow_thread, NULL);
	pthread_join(thread, NULL);
	CHECK(inside && flags == SS_ONSTACK);
	return say_done();
}
