/* SPDX-License-Identifier: MIT */
/*
 * Signals to a program while it starts, and while it executes itself: each of
 * them arrives, however late the receiver gets a processor. Signals that are
 * pending when a program executes itself keep their order, number and origin.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "say.h"

#define BURST 40 /* more than the queue of a host that passes them on */
#define SPARE 8	 /* numbers below SIGRTMAX */

extern char **environ;
static const char *self;
/* Some hosts treat them in another way, because they come of faults too. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
#define FAULTS 5

/* SIGRTMAX - SPARE to SIGRTMAX, the faults, and SIGUSR1. */
static void block_signals(void)
{
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (i = 0; i < FAULTS; i++)
		sigaddset(&set, faults[i]);
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
	for (i = 0; i < FAULTS; i++)
		missing += !sigismember(&set, faults[i]);
	return missing;
}

static int is_pending(int signo)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, signo);
}

#define QUEUED 5
#define ANY 1 /* kernels differ in the code of tgkill */

/* Signals of each kind to itself; then it executes itself. */
static int keep_signals(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGRTMAX - 2};
	struct itimerspec soon = {.it_value = {0, 1}};
	timer_t timer;
	int i;

	for (i = 0; i < QUEUED; i++) {
		if (sigqueue(getpid(), SIGRTMAX - 1,
			     (union sigval){.sival_int = 7 * i}) ||
		    kill(getpid(), SIGRTMAX - 3) || raise(SIGRTMAX))
			return 1;
	}
	if (kill(getpid(), SIGUSR1) || kill(getpid(), SIGUSR1) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &soon, NULL))
		return 2;
	while (!is_pending(SIGRTMAX - 2))
		sched_yield();
	return execl(self, self, "taken", NULL);
}

/* How many of `signo` are pending that have this code, and i * step. */
static int take_same(int signo, int code, int step)
{
	static const struct timespec at_once;
	siginfo_t info;
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigaddset(&set, signo);
	for (i = 0; sigtimedwait(&set, &info, &at_once) == signo; i++)
		if ((code != ANY && info.si_code != code) ||
		    info.si_pid != getpid() ||
		    (step && info.si_value.sival_int != i * step))
			return -1;
	return i;
}

/* In the new program; 0: what it should have. A timer's signal ends with it. */
static int take_kept(void)
{
	if (take_same(SIGRTMAX - 1, SI_QUEUE, 7) != QUEUED)
		return 1;
	if (take_same(SIGRTMAX - 3, SI_USER, 0) != QUEUED)
		return 2;
	if (take_same(SIGRTMAX, ANY, 0) != QUEUED)
		return 3;
	if (take_same(SIGUSR1, SI_USER, 0) != 1)
		return 4;
	return is_pending(SIGRTMAX - 2) ? 5 : 0;
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
		failed += kill(pid, faults[i % FAULTS]) != 0;
		nanosleep(&pause, NULL);
	}
	CHECK(failed == 0);
	do {
		failed += kill(pid, SIGRTMAX - SPARE) != 0;
		nanosleep(&pause, NULL);
	} while (!waitpid(pid, &status, WNOHANG));
	CHECK(failed == 0 && status == 0);
}

static void send_to_itself(void)
{
	pid_t pid = spawn_self("keep");
	int status = -1;

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static int run_role(char role)
{
	switch (role) {
	case 'b':
		return take_burst(getppid());
	case 'k':
		return keep_signals();
	case 't':
		return take_kept();
	default:
		return run_chain();
	}
}

int main(int argc, char **argv)
{
	static char path[4096];

	self = argc > 1 ? argv[0] : realpath(argv[0], path);
	if (argc > 1)
		return run_role(*argv[1]);
	block_signals();
	send_burst();
	send_to_chain();
	send_to_itself();
	return say_done();
}
