/* SPDX-License-Identifier: MIT */
/* setjmp and longjmp, out of deep frames, with and without the signal mask. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include "say.h"

static jmp_buf plain;
static sigjmp_buf masked;

__attribute__((noinline)) static void descend_and_jump(int n)
{
	volatile char pad[200];

	pad[0] = n;
	if (n > 0)
		descend_and_jump(n - 1);
	else if (n == 0)
		longjmp(plain, 42);
	pad[1] = pad[0];
}

int main(void)
{
	volatile int count = 0;
	sigset_t set, now;
	int value;

	value = setjmp(plain);
	if (value == 0)
		descend_and_jump(1000);
	CHECK(value == 42);
	value = setjmp(plain);
	count++;
	if (count < 1000)
		longjmp(plain, count);
	CHECK(value == 999);
	value = setjmp(plain);
	if (value == 0)
		longjmp(plain, 0);
	CHECK(value == 1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	value = sigsetjmp(masked, 1);
	if (value == 0) {
		sigprocmask(SIG_BLOCK, &set, NULL);
		siglongjmp(masked, 5);
	}
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK(value == 5 && !sigismember(&now, SIGUSR1));
	return say_done();
}
