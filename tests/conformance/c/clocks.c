/* SPDX-License-Identifier: MIT */
/* Clocks never go back, sleeps are long enough, CPU time is counted. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <unistd.h>
#include "say.h"

static long long clock_ns(clockid_t id)
{
	struct timespec ts = {0};

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static int never_back(clockid_t id)
{
	long long last = clock_ns(id), now;
	int i;

	for (i = 0; i < 100000; i++) {
		now = clock_ns(id);
		if (now < last)
			return 0;
		last = now;
	}
	return 1;
}

static void check_sleep(void)
{
	struct timespec ts = {0, 20000000};
	long long start = clock_ns(CLOCK_MONOTONIC);

	CHECK(nanosleep(&ts, NULL) == 0);
	CHECK(clock_ns(CLOCK_MONOTONIC) - start >= 20000000);
	CHECK(clock_ns(CLOCK_MONOTONIC) - start < 2000000000);
	start += 60000000;
	ts.tv_sec = start / 1000000000;
	ts.tv_nsec = start % 1000000000;
	CHECK(!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL));
	CHECK(clock_ns(CLOCK_MONOTONIC) >= start);
	ts.tv_nsec = 1000000000;
	CHECK(FAILS(nanosleep(&ts, NULL), EINVAL));
}

static void check_cpu(void)
{
	long long before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	long long mine = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	/* Only for a clock that stands: a busy computer takes seconds. */
	long long until = clock_ns(CLOCK_MONOTONIC) + 60000000000ll;
	volatile double x = 1;
	struct rusage usage;
	struct tms tms;

	/* Windows counts both in ticks of 10 to 16 ms, each by itself. */
	while ((clock_ns(CLOCK_THREAD_CPUTIME_ID) - mine < 30000000 ||
		clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before < 30000000) &&
	       clock_ns(CLOCK_MONOTONIC) < until)
		x = x * 1.0001 + 0.1;
	CHECK(clock_ns(CLOCK_THREAD_CPUTIME_ID) - mine >= 30000000);
	CHECK(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before >= 30000000);
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	CHECK(usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec +
		      usage.ru_stime.tv_usec >=
	      10000);
	CHECK(times(&tms) != -1 && tms.tms_utime + tms.tms_stime >= 1);
}

int main(void)
{
	struct timespec ts;
	struct timeval tv;

	CHECK(never_back(CLOCK_MONOTONIC));
	CHECK(never_back(CLOCK_REALTIME));
	CHECK(clock_ns(CLOCK_BOOTTIME) > 0 &&
	      clock_ns(CLOCK_MONOTONIC_RAW) > 0);
	CHECK(clock_ns(CLOCK_MONOTONIC_COARSE) > 0 &&
	      clock_ns(CLOCK_REALTIME_COARSE) > 0);
	CHECK(time(NULL) > 1600000000 && gettimeofday(&tv, NULL) == 0);
	CHECK(clock_ns(CLOCK_REALTIME) / 1000000000 - tv.tv_sec <= 1);
	CHECK(clock_getres(CLOCK_MONOTONIC, &ts) == 0 && ts.tv_sec == 0);
	CHECK(ts.tv_nsec >= 1 && ts.tv_nsec <= 20000000);
	CHECK(FAILS(clock_gettime(99, &ts), EINVAL));
	check_sleep();
	check_cpu();
	return say_done();
}
