/* SPDX-License-Identifier: MIT */
/* Clocks never go back, agree with each other and keep xmm registers. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now(int id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int main(void)
{
	long long start = now(CLOCK_MONOTONIC), last = start, next;
	long long apart = now(CLOCK_REALTIME) - start, drift;
	double sum = 0, step = 1.0 / 3;
	int i, back = 0;

	for (i = 0; i < 300000; i++) {
		next = now(CLOCK_MONOTONIC);
		back += next < last;
		last = next;
		sum += step;
	}
	usleep(30000);
	drift = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC) - apart;
	printf("back %d\n", back);
	printf("slept %d\n", now(CLOCK_MONOTONIC) - last >= 30000000);
	printf("together %d\n", drift > -50000000 && drift < 50000000);
	printf("this year %d\n", now(CLOCK_REALTIME) > 1700000000000000000ll);
	printf("cpu %d\n", now(CLOCK_PROCESS_CPUTIME_ID) > 0);
	printf("sum %.6f\n", sum);
	return 0;
}
