/* SPDX-License-Identifier: MIT */
/* The functions of bench.idl; they share nothing. */
#define _GNU_SOURCE
#include <time.h>

#include "bench.h"

void bench_empty(int x, int *y)
{
	*y = x;
}

void bench_take(int n, const double *x, double *entered)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	*entered = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	if (x[0] != 1 || x[n - 1] != (double)n)
		*entered = -1;
}
