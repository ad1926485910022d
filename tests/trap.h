/* SPDX-License-Identifier: MIT */
/*
 * Assertions of freestanding code end a sanitizer build by a trap. Each call is
 * made in a process of its own.
 */
#ifndef TESTS_TRAP_H
#define TESTS_TRAP_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static int trap_is_hit(void (*call)(void))
{
	const struct rlimit none = {0, 0};
	int status = 0;
	pid_t child = fork();

	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		call();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child &&
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGILL;
}

/* A call that breaks what its caller promised. */
#define TRAPS(call, name) tap_ok(trap_is_hit(call), "assert: %s", name)

#endif
