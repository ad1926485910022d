/* SPDX-License-Identifier: MIT */
/*
 * How much of a core a program gets: it reads the cycle counter without a pause
 * for some seconds, and counts the gaps in which something else had the core.
 * It prints "NAME VALUE UNIT" lines. usage: noise [SECONDS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

/* Longer than a read of the counter and a miss of all caches. */
#define GAP_NS 1000.0

static double clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cycles_per_ns(void)
{
	double begin = clock_seconds(), now;
	uint64_t first = __rdtsc();

	do
		now = clock_seconds();
	while (now - begin < 0.1);
	return (double)(__rdtsc() - first) / ((now - begin) * 1e9);
}

int main(int argc, char **argv)
{
	int length = argc > 1 ? atoi(argv[1]) : 5;
	double rate = cycles_per_ns(), lost = 0, longest = 0, gap;
	uint64_t begin, last, now, end;
	unsigned long gaps = 0;

	if (length < 1 || length > 60 || rate <= 0)
		return 2;
	begin = last = __rdtsc();
	end = begin + (uint64_t)(length * 1e9 * rate);
	while (last < end) {
		now = __rdtsc();
		gap = (double)(now - last) / rate;
		last = now;
		if (gap < GAP_NS)
			continue;
		gaps++;
		lost += gap;
		longest = gap > longest ? gap : longest;
	}
	printf("gaps-per-second %.1f 1/s\n", (double)gaps / length);
	printf("longest-gap %.1f us\n", longest / 1e3);
	printf("time-lost %.4f %%\n", lost / (length * 1e9) * 100);
	return 0;
}
