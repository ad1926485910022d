// SPDX-License-Identifier: MIT
/*
 * A master that `skep run` starts, with grid/test/sample_worker.c behind it.
 * `death` tests what takes long, since a node whose worker died rests before
 * it gets the call again; `measure` measures, `calls N` makes N.
 */
#include <OmniRpc.h>
#include <stdlib.h>
#include <string.h>
#include <tests/tap.h>
#include <time.h>

#define BIG (8l << 20) /* doubles */
#define MANY 64

static int calls_are_named(OmniRpcRequest r)
{
	struct skep_info info;
	int i, digest = 0;

	if (skep_call_info(r, &info))
		return 0;
	for (i = 0; i < 32; i++)
		digest |= info.program[i];
	printf("# on %s: substrate %u, attempt %u, %.0f us inside, %.0f us\n",
	       info.node, info.substrate, info.attempt,
	       (double)info.exec_ns / 1e3, (double)info.wall_ns / 1e3);
	return info.node[0] && info.substrate && info.attempt == 1 && digest &&
	       info.wall_ns > info.exec_ns;
}

static void test_calls(void)
{
	double x[4] = {1, 2, 3, 4}, sum = 0;
	char fill[1000];
	int length = 0;
	OmniRpcRequest r;

	tap_ok(OmniRpcCall("sample.scale", 4l, 2.0, x, &sum) == OMRPC_OK &&
		       sum == 20 && x[3] == 8,
	       "a call comes back with its result");
	tap_ok(OmniRpcCall("say", "hello", &length) == OMRPC_OK && length == 5,
	       "a string arrives although the worker prints");
	tap_ok(OmniRpcCall("fill", 1000l, fill, NULL) == OMRPC_OK &&
		       fill[0] == 'w' && fill[999] == 'w',
	       "a WORK array has its memory");
	tap_ok(OmniRpcModuleInit("sample", 4l, x) == OMRPC_OK &&
		       OmniRpcCall("state", &sum) == OMRPC_OK && sum == 20,
	       "calls see what initialize was given");
	x[0] = 100;
	tap_ok(OmniRpcModuleInit("sample", 1l, x) == OMRPC_OK &&
		       OmniRpcCall("state", &sum) == OMRPC_OK && sum == 100,
	       "calls see the data of a later initialize");
	r = OmniRpcCallAsync("state", &sum);
	tap_ok(OmniRpcWait(r) == OMRPC_OK && calls_are_named(r),
	       "a call reports its node and substrate");
}

static void test_death(void)
{
	double x[1] = {100}, sum = 0;
	int length;

	OmniRpcModuleInit("sample", 1l, x);
	tap_ok(OmniRpcCall("say", "exit", &length) == OMRPC_E_WORKER,
	       "a worker that ends in a call is an error of that call");
	printf("# %s\n", OmniRpcLastErrorText());
	tap_ok(OmniRpcCall("state", &sum) == OMRPC_OK && sum == 100,
	       "a new worker has what initialize was given");
}

static void test_many(void)
{
	static double x[MANY][1000], sum[MANY];
	OmniRpcRequest r[MANY];
	int i, good = 0;

	for (i = 0; i < MANY; i++) {
		x[i][i] = i;
		r[i] = OmniRpcCallAsync("scale", 1000l, 3.0, x[i], &sum[i]);
	}
	tap_ok(OmniRpcWaitAll(MANY, r) == OMRPC_OK, "many calls end");
	for (i = 0; i < MANY; i++)
		good += sum[i] == 3 * i && x[i][i] == 3 * i;
	tap_ok(good == MANY, "each has its own result");
}

static void test_big(void)
{
	double *x = malloc(BIG * sizeof(*x)), sum;
	long i, bad = 0;

	for (i = 0; i < BIG; i++)
		x[i] = (double)i;
	tap_ok(OmniRpcCall("scale", BIG, 2.0, x, &sum) == OMRPC_OK,
	       "64 MiB go to the worker and come back");
	for (i = 0; i < BIG; i++)
		bad += x[i] != 2.0 * (double)i;
	tap_ok(!bad, "64 MiB come back unchanged");
	free(x);
}

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int measure_calls(void)
{
	double *x = calloc(BIG, sizeof(*x)), sum, t;
	OmniRpcRequest r[1000];
	int i;

	OmniRpcCall("sample.scale", 1l, 1.0, x, &sum);
	t = clock_seconds();
	for (i = 0; i < 1000; i++)
		OmniRpcCall("scale", 1l, 1.0, x, &sum);
	printf("one call after the other: %.0f us each\n",
	       (clock_seconds() - t) * 1e3);
	t = clock_seconds();
	for (i = 0; i < 1000; i++)
		r[i] = OmniRpcCallAsync("scale", 1l, 1.0, x + i, x + 2000 + i);
	if (OmniRpcWaitAll(1000, r))
		printf("%s\n", OmniRpcLastErrorText());
	printf("1000 calls at once: %.0f us each\n",
	       (clock_seconds() - t) * 1e3);
	t = clock_seconds();
	if (OmniRpcCall("scale", BIG, 1.0, x, &sum))
		printf("%s\n", OmniRpcLastErrorText());
	printf("64 MiB there and back: %.0f ms\n", (clock_seconds() - t) * 1e3);
	free(x);
	return 0;
}

/* So many calls, one after the other, and how long they took. */
static int call_many(int n)
{
	double x = 1, sum, t;
	int i, bad = OmniRpcCall("sample.scale", 1l, 1.0, &x, &sum);

	t = clock_seconds();
	for (i = 0; i < n; i++)
		bad |= OmniRpcCall("scale", 1l, 1.0, &x, &sum);
	printf("%d calls in %.3f s\n", n, clock_seconds() - t);
	return bad != 0;
}

int main(int argc, char **argv)
{
	setenv("SKEP_ERRORS", "return", 0);
	if (OmniRpcInit(&argc, &argv))
		return 1;
	if (argc > 1 && !strcmp(argv[1], "measure"))
		return measure_calls();
	if (argc > 2 && !strcmp(argv[1], "calls"))
		return call_many(atoi(argv[2]));
	if (argc > 1 && !strcmp(argv[1], "death")) {
		test_death();
	} else {
		test_calls();
		test_many();
		test_big();
	}
	tap_ok(OmniRpcFinalize() == OMRPC_OK, "the session ends");
	return tap_done();
}
