/* SPDX-License-Identifier: MIT */
/* What the MPI programs here share: ranks that work, measure and give up. */
#ifndef TESTS_BENCH_O2G_KERNEL_RANK_H
#define TESTS_BENCH_O2G_KERNEL_RANK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int rank;

static void exit_failed(const char *what)
{
	fprintf(stderr, "rank %d: %s\n", rank, what);
	exit(1); /* the launcher ends the others */
}

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Computes, and calls nothing. */
static void compute_for(double seconds)
{
	double end = clock_seconds() + seconds;

	while (clock_seconds() < end)
		;
}

#endif
