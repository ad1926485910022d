/* SPDX-License-Identifier: MIT */
/*
 * The kill tests' master: many calls at once, each answer checked. It says
 * when a call was run again, and on standard error what went wrong. With FILE
 * it makes a new call for each that has ended, until there is that file.
 *
 *	master weigh CALLS MILLISECONDS [FILE]
 *	master leave STATUS
 *	master bind MODULE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <OmniRpc.h>

#define N 1000
#define CALLS_MAX 256

static double weight[N], x[CALLS_MAX][N], sum[CALLS_MAX];

static int report_failure(const char *what)
{
	fprintf(stderr, "master: %s: %s\n", what, OmniRpcLastErrorText());
	return 1;
}

static void fill_arguments(int calls)
{
	int i, k;

	for (i = 0; i < N; i++)
		weight[i] = i % 7 + 1;
	for (k = 0; k < calls; k++)
		for (i = 0; i < N; i++)
			x[k][i] = (i + k) % 11;
}

static double expected_sum(int k)
{
	double s = 0;
	int i;

	for (i = 0; i < N; i++)
		s += weight[i] * x[k][i];
	return s;
}

static int check_result(int k, OmniRpcRequest request, int *again)
{
	struct skep_info info;

	if (OmniRpcWait(request) != OMRPC_OK)
		return report_failure("a call");
	if (skep_call_info(request, &info) != OMRPC_OK)
		return report_failure("a call's record");
	if (sum[k] != expected_sum(k)) {
		fprintf(stderr, "master: call %d on %s: %g, not %g\n", k,
			info.node, sum[k], expected_sum(k));
		return 1;
	}
	*again += info.attempt > 1;
	return 0;
}

static OmniRpcRequest start_weigh(int k, int milliseconds)
{
	return OmniRpcCallAsync("work.weigh", N, x[k], milliseconds, &sum[k]);
}

static int call_weigh(int calls, int milliseconds, const char *until)
{
	OmniRpcRequest request[CALLS_MAX];
	int k, bad = 0, again = 0, more = 0;

	if (calls < 1 || calls > CALLS_MAX)
		return 2;
	fill_arguments(calls);
	if (OmniRpcModuleInit("work", N, weight) != OMRPC_OK)
		return report_failure("Initialize");
	for (k = 0; k < calls; k++)
		request[k] = start_weigh(k, milliseconds);
	for (; until && !bad && access(until, F_OK); more++) {
		k = OmniRpcWaitAny(calls, request);
		if (k < 0)
			return report_failure("calls");
		bad |= check_result(k, request[k], &again);
		request[k] = start_weigh(k, milliseconds);
	}
	for (k = 0; k < calls; k++)
		bad |= check_result(k, request[k], &again);
	if (!bad)
		printf("%d right, %d run again\n", calls + more, again);
	return bad;
}

static int call_leave(int status)
{
	if (OmniRpcModuleInit("work", N, weight) != OMRPC_OK)
		return report_failure("Initialize");
	return OmniRpcCall("work.leave", status) == OMRPC_OK
		       ? 0
		       : report_failure("leave");
}

static int bind_module(const char *module)
{
	return OmniRpcCreateHandle(NULL, module) ? 0 : report_failure(module);
}

int main(int argc, char **argv)
{
	int status = 2;

	setenv("SKEP_ERRORS", "return", 0);
	if (OmniRpcInit(&argc, &argv) != OMRPC_OK)
		return 1;
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "weigh"))
		status = call_weigh(atoi(argv[2]), atoi(argv[3]), argv[4]);
	else if (argc == 3 && !strcmp(argv[1], "leave"))
		status = call_leave(atoi(argv[2]));
	else if (argc == 3 && !strcmp(argv[1], "bind"))
		status = bind_module(argv[2]);
	OmniRpcFinalize();
	return status;
}
