/* SPDX-License-Identifier: MIT */
/*
 * Timers of CPU time and RLIMIT_CPU. "kill": goes on beyond the hard limit.
 * What is used is asked from the clocks, so a busy machine makes this slower
 * only.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "say.h"

#define MS 1000000ll

static volatile sig_atomic_t count[65], code[65];
static volatile int stop;
static volatile pid_t worker;	    /* the thread of check_taker that works */
static volatile sig_atomic_t taken; /* signals that came to it */

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	count[signo]++;
	code[signo] = info->si_code;
	if (worker && worker == (pid_t)syscall(SYS_gettid))
		taken++;
}

static void handle_signal(int signo)
{
	struct sigaction act = {.sa_sigaction = on_signal,
				.sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(signo, &act, NULL);
}

static long long used_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Until so much time was used and `signo` came so many times; 0: too long. */
static int burn_time(long long ns, int signo, int times)
{
	long long begin = used_ns(CLOCK_PROCESS_CPUTIME_ID), used;

	do
		used = used_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
	while ((used < ns || count[signo] < times) && used < 20000 * MS);
	return count[signo] >= times;
}

/* A timer that repeats: as many signals as time was used for, about. */
static void check_itimer(int which, int signo)
{
	struct itimerval each = {{0, 20000}, {0, 20000}},
			 off = {{0, 0}, {0, 0}};
	struct itimerval now;

	handle_signal(signo);
	CHECK(setitimer(which, &each, NULL) == 0);
	CHECK(getitimer(which, &now) == 0 && now.it_interval.tv_usec == 20000 &&
	      now.it_value.tv_sec == 0 && now.it_value.tv_usec <= 24000 &&
	      now.it_value.tv_usec > 0);
	CHECK(burn_time(200 * MS, signo, 3) && count[signo] <= 1000);
	CHECK(code[signo] == SI_KERNEL);
	CHECK(setitimer(which, &off, &now) == 0 &&
	      now.it_interval.tv_usec == 20000);
	CHECK(getitimer(which, &now) == 0 && now.it_value.tv_sec == 0 &&
	      now.it_value.tv_usec == 0 && now.it_interval.tv_usec == 0);
}

/* Time in which the process sleeps does not count. */
static void check_sleep(void)
{
	struct itimerval far = {{0, 0}, {5, 0}}, off = {{0, 0}, {0, 0}};
	struct timespec nap = {0, 50 * MS};

	count[SIGPROF] = 0;
	CHECK(setitimer(ITIMER_PROF, &far, NULL) == 0);
	CHECK(nanosleep(&nap, NULL) == 0 && count[SIGPROF] == 0);
	CHECK(setitimer(ITIMER_PROF, &off, &far) == 0 &&
	      (far.it_value.tv_sec == 4 || far.it_value.tv_sec == 5));
}

static void *burn_thread(void *arg)
{
	worker = (pid_t)syscall(SYS_gettid);
	while (!stop)
		;
	return arg;
}

/*
 * While one thread works and this one waits, signals are the other's, but for
 * those of a tick that meets this one between two waits.
 */
static void check_taker(void)
{
	struct itimerval each = {{0, 20000}, {0, 20000}},
			 off = {{0, 0}, {0, 0}};
	struct timespec nap = {0, 10 * MS};
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, burn_thread, NULL);
	CHECK(setitimer(ITIMER_PROF, &each, NULL) == 0);
	for (i = 0; i < 2000 && taken < 3; i++)
		nanosleep(&nap, NULL);
	CHECK(taken >= 3);
	CHECK(setitimer(ITIMER_PROF, &off, NULL) == 0);
	stop = 1;
	pthread_join(thread, NULL);
}

static void check_timers(clockid_t clock)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGUSR1,
				 .sigev_value = {.sival_int = 9}};
	struct itimerspec once = {.it_value = {0, 30 * MS}}, left;
	timer_t timer;

	handle_signal(SIGUSR1);
	count[SIGUSR1] = 0;
	CHECK(timer_create(clock, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &once, NULL) == 0);
	CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0 &&
	      left.it_value.tv_nsec > 0);
	CHECK(burn_time(30 * MS, SIGUSR1, 1) && count[SIGUSR1] == 1);
	CHECK(code[SIGUSR1] == SI_TIMER);
	CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec == 0);
	CHECK(timer_delete(timer) == 0);
}

/* SIGXCPU at the soft limit, which then is a second higher. */
static void check_limit(int hard)
{
	long long used = used_ns(CLOCK_PROCESS_CPUTIME_ID);
	rlim_t soft = (rlim_t)(used / (1000 * MS)) + 1;
	struct rlimit limit = {soft, hard ? soft + 1 : RLIM_INFINITY};

	handle_signal(SIGXCPU);
	CHECK(setrlimit(RLIMIT_CPU, &limit) == 0);
	CHECK(burn_time(0, SIGXCPU, 1) && code[SIGXCPU] == SI_KERNEL);
	CHECK(used_ns(CLOCK_PROCESS_CPUTIME_ID) >=
	      (long long)soft * 1000 * MS - 500 * MS);
	CHECK(getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur == soft + 1);
	if (hard)
		burn_time(20000 * MS, SIGXCPU, 100);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "kill")) {
		check_limit(1);
		return say_done();
	}
	check_itimer(ITIMER_PROF, SIGPROF);
	check_itimer(ITIMER_VIRTUAL, SIGVTALRM);
	check_sleep();
	check_taker();
	check_timers(CLOCK_PROCESS_CPUTIME_ID);
	check_timers(CLOCK_THREAD_CPUTIME_ID);
	check_limit(0);
	return say_done();
}
