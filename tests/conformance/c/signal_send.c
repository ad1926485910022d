/* SPDX-License-Identifier: MIT */
/* Signals sent on purpose: raise, kill, tgkill, masks, order, waiting. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static volatile sig_atomic_t count[65], last, inner, info_pid, info_value;
static pthread_t other_thread;
static volatile sig_atomic_t on_other, ready;

static void on_signal(int signo)
{
	count[signo]++;
	last = signo;
	on_other = pthread_equal(pthread_self(), other_thread);
}

static void on_siginfo(int signo, siginfo_t *info, void *context)
{
	(void)context;
	count[signo]++;
	info_pid = info->si_pid == getpid();
	info_value = info->si_value.sival_int;
}

static void on_nested(int signo)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	inner = sigismember(&now, signo) * 10 + sigismember(&now, SIGUSR2);
	if (signo == SIGUSR1) {
		raise(SIGUSR2);
		inner += count[SIGUSR2] * 100;
	}
	count[signo]++;
}

static void install_handler(int signo, void (*function)(int), int flags,
			    int blocked)
{
	struct sigaction sa = {.sa_handler = function, .sa_flags = flags};

	if (blocked)
		sigaddset(&sa.sa_mask, blocked);
	sigaction(signo, &sa, NULL);
	count[signo] = 0;
}

static void check_send(void)
{
	install_handler(SIGUSR1, on_signal, 0, 0);
	install_handler(SIGUSR2, on_signal, 0, 0);
	CHECK(raise(SIGUSR1) == 0 && count[SIGUSR1] == 1);
	CHECK(kill(getpid(), SIGUSR2) == 0 && count[SIGUSR2] == 1);
	CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 2 && last == SIGUSR1);
	CHECK(kill(getpid(), 0) == 0);
	CHECK(FAILS(kill(getpid(), 99), EINVAL));
	CHECK(FAILS(syscall(SYS_tgkill, getpid(), -5, SIGUSR1), EINVAL));
	CHECK(signal(SIGUSR1, SIG_IGN) == on_signal);
	CHECK(raise(SIGUSR1) == 0 && count[SIGUSR1] == 2);
	install_handler(SIGUSR1, on_signal, SA_RESETHAND, 0);
	CHECK(raise(SIGUSR1) == 0 && signal(SIGUSR1, SIG_DFL) == SIG_DFL);
	CHECK(FAILS(sigaction(SIGKILL, &(struct sigaction){0}, NULL), EINVAL));
	CHECK(raise(SIGCHLD) == 0 && raise(SIGURG) == 0);
}

static void check_masks(void)
{
	sigset_t set, old, pending;

	install_handler(SIGUSR1, on_signal, 0, 0);
	install_handler(SIGUSR2, on_signal, 0, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
	CHECK(!sigismember(&old, SIGUSR1));
	raise(SIGUSR1);
	raise(SIGUSR1);
	raise(SIGUSR2);
	CHECK(count[SIGUSR1] == 0 && count[SIGUSR2] == 0);
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
	CHECK(sigismember(&pending, SIGUSR2) && !sigismember(&pending, 1));
	sigdelset(&set, SIGUSR2);
	CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
	CHECK(count[SIGUSR1] == 0 && count[SIGUSR2] == 1);
	CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
	CHECK(count[SIGUSR1] == 1);
	install_handler(SIGUSR1, on_nested, 0, SIGUSR2);
	install_handler(SIGUSR2, on_nested, 0, 0);
	CHECK(raise(SIGUSR1) == 0 && count[SIGUSR2] == 1);
	CHECK(inner == 11);
	install_handler(SIGUSR1, on_nested, SA_NODEFER, 0);
	install_handler(SIGUSR2, on_nested, 0, 0);
	CHECK(raise(SIGUSR1) == 0 && count[SIGUSR2] == 1);
	CHECK(inner == 111);
}

static void check_waits(void)
{
	struct timespec zero = {0, 0};
	siginfo_t info;
	sigset_t set, none;

	install_handler(SIGUSR1, on_signal, 0, 0);
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	CHECK(FAILS(sigsuspend(&none), EINTR) && count[SIGUSR1] == 1);
	sigprocmask(SIG_BLOCK, NULL, &none);
	CHECK(sigismember(&none, SIGUSR1));
	raise(SIGUSR1);
	CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
	CHECK(info.si_signo == SIGUSR1 && info.si_pid == getpid());
	CHECK(FAILS(sigtimedwait(&set, &info, &zero), EAGAIN));
	CHECK(count[SIGUSR1] == 1);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void check_queue(void)
{
	struct sigaction sa = {.sa_sigaction = on_siginfo,
			       .sa_flags = SA_SIGINFO};
	union sigval value = {.sival_int = 77};

	sigaction(SIGRTMIN + 3, &sa, NULL);
	CHECK(sigqueue(getpid(), SIGRTMIN + 3, value) == 0);
	CHECK(count[SIGRTMIN + 3] == 1 && info_pid && info_value == 77);
}

static void *run_other(void *arg)
{
	ready = 1;
	while (!count[SIGUSR2])
		usleep(1000);
	return arg;
}

static void check_threads(void)
{
	install_handler(SIGUSR2, on_signal, 0, 0);
	pthread_create(&other_thread, NULL, run_other, NULL);
	while (!ready)
		usleep(1000);
	CHECK(pthread_kill(other_thread, SIGUSR2) == 0);
	pthread_join(other_thread, NULL);
	CHECK(count[SIGUSR2] == 1 && on_other);
}

int main(void)
{
	check_send();
	check_masks();
	check_waits();
	check_queue();
	check_threads();
	return say_done();
}
