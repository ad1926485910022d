// SPDX-License-Identifier: MIT
/*
 * One point of the contour as a program of its own, linked like the worker:
 * the same file runs natively and under bee, and prints what must be the same
 * everywhere; with --time the median of the solve's time instead.
 *
 * usage: point [--time] ELEMENTS [RUNS]
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/eigen/box.h"
#include "examples/eigen/worker.h"

#define COLUMNS 16

static double clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* FNV-1a: one changed bit changes it. */
static uint64_t digest_bytes(const void *data, size_t length)
{
	const unsigned char *byte = data;
	uint64_t sum = 0xcbf29ce484222325;

	while (length--)
		sum = (sum ^ *byte++) * 0x100000001b3;
	return sum;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int report_failure(void)
{
	fprintf(stderr, "point: %s\n", eigen_why());
	return 1;
}

int main(int argc, char **argv)
{
	int timed = argc > 1 && !strcmp(argv[1], "--time"), size, runs, i, n;
	struct eigen_box box = {.edge = {1, 1.1, 1.25}};
	struct eigen_sparse a, b;
	double *v, *y, took[64], begin;
	int *order;

	size = argc > 1 + timed ? atoi(argv[1 + timed]) : 8;
	runs = argc > 2 + timed ? atoi(argv[2 + timed]) : 1;
	if (runs < 1 || runs > 64)
		return 2;
	for (i = 0; i < 3; i++)
		box.elements[i] = size + i;
	n = eigen_box_unknowns(&box);
	if (n < 0 || eigen_box_build(&box, &a, &b))
		return 2;
	v = malloc(sizeof(*v) * n * COLUMNS);
	y = malloc(sizeof(*y) * n * COLUMNS * 2);
	order = malloc(sizeof(*order) * n);
	if (!v || !y || !order)
		return 1;
	eigen_box_order(&box, order);
	for (i = 0; i < n * COLUMNS; i++)
		v[i] = (i * 2654435761u) >> 31 ? 1 : -1;
	begin = clock_seconds();
	if (eigen_initialize(n, a.nnz, b.nnz, COLUMNS, a.start, a.column,
			     a.value, b.start, b.column, b.value, v, order))
		return report_failure();
	if (timed)
		printf("n %d analysis %.3f s\n", n, clock_seconds() - begin);
	for (i = 0; i < runs; i++) {
		begin = clock_seconds();
		if (eigen_solve(n, COLUMNS, 60 + i, 7, y))
			return report_failure();
		took[i] = clock_seconds() - begin;
		if (!timed)
			printf("%d %016" PRIx64 "\n", i,
			       digest_bytes(y, sizeof(*y) * n * COLUMNS * 2));
	}
	qsort(took, runs, sizeof(*took), compare_doubles);
	if (timed)
		printf("%.6f\n", took[runs / 2]);
	return 0;
}
