/* SPDX-License-Identifier: MIT */
/* Timers that send signals into running code: alarm, setitimer, timer_create.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include "say.h"

static volatile sig_atomic_t ticks;

static void on_alarm(int signo)
{
	ticks += signo == SIGALRM || signo == SIGUSR1;
}

/* Spins in plain computation, no calls at all, until `n` signals arrived. */
static int spin_until(int n)
{
	long long i;

	for (i = 0; i < 20000000000ll; i++)
		if (ticks >= n)
			return 1;
	return 0;
}

int main(void)
{
	struct itimerval timer = {{0, 5000}, {0, 5000}}, old;
	struct itimerspec spec = {{0, 0}, {0, 20000000}};
	struct sigaction sa = {.sa_handler = on_alarm};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGUSR1};
	timer_t id;

	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(spin_until(5));
	CHECK(getitimer(ITIMER_REAL, &old) == 0);
	CHECK(old.it_interval.tv_usec == 5000);
	memset(&timer, 0, sizeof(timer));
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	ticks = 0;
	CHECK(alarm(1) == 0);
	CHECK(alarm(5) == 1 && alarm(0) == 5);
	timer.it_value.tv_usec = 20000;
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(FAILS(pause(), EINTR) && ticks == 1);
	ticks = 0;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &id) == 0);
	CHECK(timer_settime(id, 0, &spec, NULL) == 0);
	CHECK(spin_until(1));
	CHECK(timer_delete(id) == 0);
	return say_done();
}
