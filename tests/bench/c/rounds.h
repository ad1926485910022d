/* SPDX-License-Identifier: MIT */
/*
 * Timing shared by the Linux and the Win32 side: the median of several rounds,
 * each long enough for the clock. clock_ns is the includer's.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 9
#define ROUND_NS 4000000.0

struct operation {
	const char *name;
	void (*run)(long count);
};

double clock_ns(void);

static double time_operation(const struct operation *op, long count)
{
	double start = clock_ns();

	op->run(count);
	return clock_ns() - start;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds per operation. */
static double median_ns(const struct operation *op)
{
	double rounds[ROUNDS], took;
	long count = 16;
	int i;

	while ((took = time_operation(op, count)) < ROUND_NS &&
	       count < 1l << 26)
		count *= took < ROUND_NS / 8 ? 4 : 2;
	for (i = 0; i < ROUNDS; i++)
		rounds[i] = time_operation(op, count) / count;
	qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
	return rounds[ROUNDS / 2];
}

#endif
