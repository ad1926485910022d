/* SPDX-License-Identifier: MIT */
/* The alternate stack: used and reported. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include "say.h"

#define SIZE 65536

static char *stack;
static volatile int inside, flags;

static void on_signal(int signo)
{
	char here = signo;
	stack_t now;

	inside = &here >= stack && &here < stack + SIZE;
	sigaltstack(NULL, &now);
	flags = now.ss_flags;
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	stack_t ss = {.ss_size = SIZE}, old;

	stack = ss.ss_sp = malloc(SIZE);
	CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
	CHECK(sigaltstack(&ss, NULL) == 0);
	CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == stack);
	CHECK(old.ss_size == SIZE && old.ss_flags == 0);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK(inside && flags == SS_ONSTACK);
	sa.sa_flags = 0;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK(!inside && flags == 0);
	ss.ss_size = 100;
	CHECK(FAILS(sigaltstack(&ss, NULL), ENOMEM));
	ss.ss_flags = SS_DISABLE;
	CHECK(sigaltstack(&ss, NULL) == 0);
	return say_done();
}
