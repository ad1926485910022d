/* SPDX-License-Identifier: MIT */
/*
 * Signals to a program while it starts, and while it executes itself: each of
 * them arrives, however late the receiver gets a processor.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define BURST 40 /* more than the queue of a host that passes them on */
#define SPARE 8	 /* numbers below SIGRTMAX */

extern char **environ;
static const char *self;

/* SIGRTMAX - SPARE to SIGRTMAX. */
static void block_signals(void)
{
	sigset_t set;
	int i;

	sigemptyset(&set);
	for (i = 0; i <= SPARE; i++)
		sigaddset(&set, SIGRTMAX - i);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* In a new program: each of a burst of either kind is there, in order. */
static int take_burst(pid_t sender)
{
	const struct timespec limit = {60, 0};
	siginfo_t info;
	sigset_t set;
	int i, k;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX - 1);
	sigaddset(&set, SIGRTMAX);
	for (k = 0; k < 2; k++)
		for (i = 0; i < BURST; i++)
			if (sigtimedwait(&set, &info, &limit) !=
				    SIGRTMAX - 1 + k ||
			    info.si_pid != sender ||
			    (!k && info.si_value.sival_int != i))
				return 1 + i;
	return 0;
}

/* Executes itself until the last signal is there; returns how many are not. */
static int run_chain(void)
{
	int i, missing = 0;
	sigset_t set;

	sigpending(&set);
	if (!sigismember(&set, SIGRTMAX - SPARE))
		return execl(self, self, "chain", NULL);
	for (i = 1; i < SPARE; i++)
		missing += !sigismember(&set, SIGRTMAX - i);
	return missing;
}

static pid_t spawn_self(const char *role)
{
	char *argv[] = {(char *)self, (char *)role, NULL};
	pid_t pid = -1;

	CHECK(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0);
	if (pid < 0)
		exit(say_done());
	return pid;
}

static void send_burst(void)
{
	pid_t pid = spawn_self("burst");
	int i, failed = 0, status = -1;

	for (i = 0; i < BURST; i++)
		failed += sigqueue(pid, SIGRTMAX - 1,
				   (union sigval){.sival_int = i}) != 0;
	CHECK(failed == 0);
	for (i = 0; i < BURST; i++)
		failed += kill(pid, SIGRTMAX) != 0;
	CHECK(failed == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void send_to_chain(void)
{
	const struct timespec pause = {0, 20000000};
	pid_t pid = spawn_self("chain");
	int i, failed = 0, status = -1;

	for (i = 1; i < SPARE; i++) { /* most of them during an execve */
		failed += kill(pid, SIGRTMAX - i) != 0;
		nanosleep(&pause, NULL);
	}
	CHECK(failed == 0);
	do {
		failed += kill(pid, SIGRTMAX - SPARE) != 0;
		nanosleep(&pause, NULL);
	} while (!waitpid(pid, &status, WNOHANG));
	CHECK(failed == 0 && status == 0);
}

int main(int argc, char **argv)
{
	static char path[4096];

	self = argc > 1 ? argv[0] : realpath(argv[0], path);
	if (argc > 1)
		return *argv[1] == 'b' ? take_burst(getppid()) : run_chain();
	block_signals();
	send_burst();
	send_to_chain();
	return say_done();
}
