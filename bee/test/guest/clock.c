/* SPDX-License-Identifier: MIT */
/*
 * Clocks never go back, not between threads either, agree with each other and
 * keep xmm registers.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long clock_ns(int id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static long long latest; /* atomic: the latest time that any thread saw */

/* What another thread read before is not later than what we read now. */
static void *run_race(void *arg)
{
	int i, *back = arg;

	for (i = 0; i < 300000; i++) {
		long long seen = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
		long long next = clock_ns(CLOCK_MONOTONIC);

		*back += next < seen;
		while (seen < next &&
		       !__atomic_compare_exchange_n(&latest, &seen, next, 0,
						    __ATOMIC_ACQ_REL,
						    __ATOMIC_ACQUIRE))
			;
	}
	return NULL;
}

static int race_all(void)
{
	pthread_t threads[4];
	int back[4] = {0}, i, sum = 0;

	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_race, &back[i]);
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sum += back[i];
	}
	return sum;
}

int main(void)
{
	long long start = clock_ns(CLOCK_MONOTONIC), last = start, next;
	long long apart = clock_ns(CLOCK_REALTIME) - start, drift;
	double sum = 0, step = 1.0 / 3;
	int i, back = 0;

	for (i = 0; i < 300000; i++) {
		next = clock_ns(CLOCK_MONOTONIC);
		back += next < last;
		last = next;
		sum += step;
	}
	usleep(30000);
	drift = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) - apart;
	printf("back %d\n", back);
	printf("back between threads %d\n", race_all());
	printf("slept %d\n", clock_ns(CLOCK_MONOTONIC) - last >= 30000000);
	printf("together %d\n", drift > -50000000 && drift < 50000000);
	printf("this year %d\n",
	       clock_ns(CLOCK_REALTIME) > 1700000000000000000ll);
	printf("cpu %d\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID) > 0);
	printf("sum %.6f\n", sum);
	return 0;
}
