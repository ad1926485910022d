/* SPDX-License-Identifier: MIT */
/*
 * Work that makes few calls: prints "kernel ns" lines. What bee costs there is
 * its rewritten text: jumps to stubs for thread-local storage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "rounds.h"

#define N 160

static double a[N][N], b[N][N], c[N][N];
static __thread long counters[16];
static volatile double sink;
static void *volatile kept;

double clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static void run_multiply(long count)
{
	int i, j, k;

	while (count--) {
		for (i = 0; i < N; i++)
			for (k = 0; k < N; k++)
				for (j = 0; j < N; j++)
					c[i][j] += a[i][k] * b[k][j];
		sink = c[3][5];
	}
}

/* Sparse gather: memory bound, as the solver's inner loops are. */
static void run_gather(long count)
{
	static unsigned index[1 << 16];
	static double from[1 << 20];
	double sum = 0;
	int i;

	for (i = 0; i < 1 << 16; i++)
		index[i] = (i * 2654435761u) >> 12;
	for (i = 0; i < 1 << 20; i++)
		from[i] = i * 0.5;
	while (count--)
		for (i = 0; i < 1 << 16; i++)
			sum += from[index[i]];
	sink = sum;
}

static void run_malloc(long count)
{
	static void *slot[64];
	unsigned i, seed = 1;

	while (count--) {
		seed = seed * 1664525u + 1013904223u;
		i = seed >> 26;
		free(slot[i]);
		slot[i] = malloc(16 + (seed >> 12) % 1000);
		kept = slot[i];
	}
	for (i = 0; i < 64; i++) {
		free(slot[i]);
		slot[i] = NULL;
	}
}

static void thread_local_add(long count)
{
	while (count--) {
		counters[count & 15] += count;
		__asm__ volatile("" ::: "memory");
	}
}

static void error_numbers(long count)
{
	volatile double minus = -1;

	while (count--) {
		errno = 0;
		sink = log(minus);
		if (errno != EDOM)
			exit(3);
	}
}

static void lock_unlock(long count)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	while (count--) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void run_format(long count)
{
	char text[64];

	while (count--)
		snprintf(text, sizeof(text), "%d %.6f %s", (int)count,
			 count * 0.37, "text");
	sink = text[0];
}

static const struct operation operations[] = {
	{"multiply", run_multiply},	 {"gather", run_gather},
	{"malloc_free", run_malloc},	 {"tls_add", thread_local_add},
	{"errno", error_numbers},	 {"mutex", lock_unlock},
	{"snprintf_double", run_format},
};

int main(void)
{
	unsigned i, j;

	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++) {
			a[i][j] = i * 0.5 - j;
			b[i][j] = j * 0.25 + i;
		}
	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		printf("%s %.2f\n", operations[i].name,
		       median_ns(&operations[i]));
	return 0;
}
