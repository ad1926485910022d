// SPDX-License-Identifier: MIT
/* A worker as `skep gen` would write it, with what the tests of the library
 * call. */
#include <skep/module.h>
#include "grid/include/skep/worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define D ~0u
#define WHOLE(size)                                                            \
	{                                                                      \
		{                                                              \
			size, D, D, D                                          \
		}                                                              \
	}

enum {
	CODE_N, /* where the code for `n` lies, parameter 0 */
	CODE = 3,
};

/* scale(IN long n, IN double by, INOUT double x[n], OUT double sum) and so on:
 * see the functions below. */
static const struct {
	struct skep_module head;
	struct skep_function function[8];
	struct skep_param param[20];
	u8 code[CODE];
} __attribute__((packed))
manifest __attribute__((aligned(8), section(".skep.module"), used)) = {
	{SKEP_MODULE_MAGIC, SKEP_MODULE_REVISION, 8, 20, CODE, "sample"},
	{
		{"scale", 0, 4, 0, 0},
		{"Initialize", 4, 2, SKEP_FUNCTION_INIT, 0},
		{"state", 6, 1, 0, 0},
		{"say", 7, 2, 0, 0},
		{"rest", 9, 1, 0, 0},
		{"fill", 10, 3, 0, 0},
		{"back", 13, 3, 0, 0},
		{"step", 16, 4, SKEP_FUNCTION_CALLBACK, 0},
	},
	{
		{"n", SKEP_LONG, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"by", SKEP_DOUBLE, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"x", SKEP_DOUBLE, SKEP_INOUT, 1, 0, 0, WHOLE(CODE_N)},
		{"sum", SKEP_DOUBLE, SKEP_OUT, 0, 0, 0, {{0, 0, 0, 0}}},

		{"n", SKEP_LONG, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"x", SKEP_DOUBLE, SKEP_IN, 1, 0, 0, WHOLE(CODE_N)},

		{"sum", SKEP_DOUBLE, SKEP_OUT, 0, 0, 0, {{0, 0, 0, 0}}},

		{"text", SKEP_STRING, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"length", SKEP_INT, SKEP_OUT, 0, 0, 0, {{0, 0, 0, 0}}},

		{"seconds", SKEP_LONG, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},

		{"n", SKEP_LONG, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"x", SKEP_CHAR, SKEP_OUT, 1, 0, 0, WHOLE(CODE_N)},
		{"w", SKEP_CHAR, SKEP_WORK, 1, 0, 0, WHOLE(CODE_N)},

		{"n", SKEP_LONG, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"step",
		 SKEP_MASTER_FUNCTION,
		 SKEP_IN,
		 0,
		 0,
		 7,
		 {{0, 0, 0, 0}}},
		{"sum", SKEP_DOUBLE, SKEP_OUT, 0, 0, 0, {{0, 0, 0, 0}}},

		{"n", SKEP_LONG, SKEP_IN, 0, 0, 1, {{0, 0, 0, 0}}},
		{"i", SKEP_INT, SKEP_IN, 0, 0, 0, {{0, 0, 0, 0}}},
		{"x", SKEP_DOUBLE, SKEP_INOUT, 1, 0, 0, WHOLE(CODE_N)},
		{"sum", SKEP_DOUBLE, SKEP_OUT, 0, 0, 0, {{0, 0, 0, 0}}},
	},
	{SKEP_OP_PARAM, 0, SKEP_OP_END},
};

static const double *kept;
static long kept_count;

static double sum_array(const double *x, long n)
{
	double all = 0;

	while (n--)
		all += *x++;
	return all;
}

static void fn_scale(void *const *argument)
{
	long i, n = *(long *)argument[0];
	double *x = argument[2];

	for (i = 0; i < n; i++)
		x[i] *= *(double *)argument[1];
	*(double *)argument[3] = sum_array(x, n);
}

static void fn_initialize(void *const *argument)
{
	kept_count = *(long *)argument[0];
	kept = argument[1];
}

static void fn_state(void *const *argument)
{
	*(double *)argument[0] = sum_array(kept, kept_count);
}

static void fn_say(void *const *argument)
{
	printf("said %s\n", (char *)argument[0]);
	*(int *)argument[1] = (int)strlen(argument[0]);
	if (!strcmp(argument[0], "exit"))
		exit(7);
}

static void fn_rest(void *const *argument)
{
	sleep((unsigned int)*(long *)argument[0]);
}

/* Without its work array it would not be what was asked for. */
static void fn_fill(void *const *argument)
{
	long n = *(long *)argument[0];

	memset(argument[2], 'w', (size_t)n);
	memcpy(argument[1], argument[2], (size_t)n);
}

static void *call_step(void *argument)
{
	skep_worker_callback(7, argument);
	return NULL;
}

/* Twice with n elements; with less than none, as it must not. */
static void fn_back(void *const *argument)
{
	static double x[0x30000];
	long n = *(long *)argument[0];
	double sum = 0;
	int i = 7;
	void *values[] = {&i, x, &sum};
	pthread_t t;

	if (n == -1) {
		pthread_create(&t, NULL, call_step, values);
		pthread_join(t, NULL);
	}
	if (n == -2)
		skep_worker_callback(6, values);
	x[0] = 1;
	skep_worker_callback(7, values);
	i++;
	x[0] += sum;
	skep_worker_callback(7, values);
	*(double *)argument[2] = sum + x[0];
}

static skep_worker_function *const functions[] = {
	fn_scale, fn_initialize, fn_state, fn_say, fn_rest, fn_fill, fn_back,
};

const struct skep_worker skep_worker = {&manifest, sizeof(manifest), functions};
