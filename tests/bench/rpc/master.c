/* SPDX-License-Identifier: MIT */
/*
 * The master of the call benches. It prints "name nanoseconds" lines; the
 * bench around it takes medians and makes the comparison.
 *
 *	master call ROUNDS
 *	master argument MEGABYTES ROUNDS
 *	master share SECONDS FILE: from when FILE exists
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <OmniRpc.h>

#define WARM 200

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int report_failure(void)
{
	fprintf(stderr, "bench: %s\n", OmniRpcLastErrorText());
	return 1;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure_call(int rounds)
{
	double *t = calloc((size_t)rounds, sizeof(*t)), begin;
	int i, y = -1;

	for (i = -WARM; t && i < rounds; i++) {
		begin = clock_seconds();
		if (OmniRpcCall("bench.empty", i, &y) != OMRPC_OK || y != i)
			return report_failure();
		if (i >= 0)
			t[i] = clock_seconds() - begin;
	}
	if (!t)
		return 1;
	qsort(t, (size_t)rounds, sizeof(*t), compare_doubles);
	printf("median %.0f\n", t[rounds / 2] * 1e9);
	printf("tenth %.0f\n", t[rounds / 10] * 1e9);
	printf("ninetieth %.0f\n", t[rounds * 9 / 10] * 1e9);
	free(t);
	return 0;
}

static int measure_argument(int megabytes, int rounds)
{
	int n = megabytes * 125000, i;
	double *x = malloc((size_t)n * sizeof(*x)), begin, entered = -1;

	if (!x)
		return 1;
	for (i = 0; i < n; i++)
		x[i] = i + 1;
	for (i = 0; i < rounds; i++) {
		begin = clock_seconds();
		if (OmniRpcCall("bench.take", n, x, &entered) != OMRPC_OK ||
		    entered < begin)
			return report_failure();
		printf("entry%d %.0f\n", i, (entered - begin) * 1e9);
	}
	free(x);
	return 0;
}

/* Sharing ----------------------------------------------------------------- */

#define WINDOW 8
#define WORKERS_MAX 1024

struct share {
	OmniRpcRequest call[WINDOW];
	int worker[WINDOW]; /* results of call */
	int seen[WORKERS_MAX], workers;
	long calls;
};

static int call_who(struct share *s, int i)
{
	s->call[i] = OmniRpcCallAsync("bench.who", &s->worker[i]);
	return s->call[i] ? 0 : -1;
}

static void note_worker(struct share *s, int number)
{
	int i;

	for (i = s->workers - 1; i >= 0; i--)
		if (s->seen[i] == number)
			return;
	if (s->workers < WORKERS_MAX)
		s->seen[s->workers++] = number;
}

static void await_file(const char *name)
{
	struct timespec pause = {0, 1000000};

	while (access(name, F_OK))
		nanosleep(&pause, NULL);
}

/* Keeps WINDOW calls open for a time, beside other masters that do the same. */
static int measure_share(double seconds, const char *file)
{
	static struct share s;
	double end;
	int i, first;

	if (OmniRpcCall("bench.who", &first) != OMRPC_OK)
		return report_failure();
	puts("ready");
	fflush(stdout);
	await_file(file);
	end = clock_seconds() + seconds;
	for (i = 0; i < WINDOW; i++)
		if (call_who(&s, i))
			return report_failure();
	for (i = 0; clock_seconds() < end; i = (i + 1) % WINDOW) {
		if (OmniRpcWait(s.call[i]) != OMRPC_OK)
			return report_failure();
		note_worker(&s, s.worker[i]);
		s.calls += clock_seconds() < end;
		if (call_who(&s, i))
			return report_failure();
	}
	for (i = 0; i < WINDOW; i++)
		OmniRpcWait(s.call[i]);
	printf("calls %ld\nworkers %d\n", s.calls, s.workers);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 2;

	if (OmniRpcInit(&argc, &argv) != OMRPC_OK)
		return 1;
	if (argc == 3 && !strcmp(argv[1], "call") && atoi(argv[2]) > 0)
		status = measure_call(atoi(argv[2]));
	else if (argc == 4 && !strcmp(argv[1], "argument") &&
		 atoi(argv[2]) > 0 && atoi(argv[2]) <= 8000)
		status = measure_argument(atoi(argv[2]), atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "share") && atof(argv[2]) > 0)
		status = measure_share(atof(argv[2]), argv[3]);
	OmniRpcFinalize();
	return status;
}
