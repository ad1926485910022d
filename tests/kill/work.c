/* SPDX-License-Identifier: MIT */
/* The functions of work.idl. One call at a time, so nothing is locked. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

static double *weights;
static int count;

void work_initialize(int n, double *weight)
{
	weights = weight;
	count = n;
}

static void sleep_ms(int milliseconds)
{
	struct timespec t = {milliseconds / 1000,
			     milliseconds % 1000 * 1000000L};

	while (nanosleep(&t, &t))
		;
}

void work_weigh(int n, double *x, int milliseconds, double *sum)
{
	char name[] = "left-XXXXXX";
	double s = 0;
	int i, fd;

	/* What a worker leaves in its directory must go with the session. */
	fd = mkstemp(name);
	if (fd < 0 || write(fd, "left", 4) != 4)
		abort();
	close(fd);
	sleep_ms(milliseconds);
	for (i = 0; i < n && i < count; i++)
		s += weights[i] * x[i];
	*sum = s;
}

void work_leave(int status)
{
	fprintf(stderr, "work: leaving with %d\n", status);
	exit(status);
}
