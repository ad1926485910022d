/* SPDX-License-Identifier: MIT */
/*
 * A program of OmniRPC and GridRPC. Each has a session of its own, so a
 * function that runs for a call of one cannot make calls of the other: on a
 * grid with one slot they would wait for ever.
 */
#include <OmniRpc.h>
#include <grpc.h>

static grpc_function_handle_t count;
static OmniRpcRequest ended;
static int codes[4];

static void call_grid(int i, int *total)
{
	int sum = 0;

	codes[0] = grpc_call(&count, i, &sum, call_grid);
	*total = sum + 1;
}

static void add_one(int i, int *total)
{
	*total = i + 1;
}

static void call_omni(int i, int *total)
{
	int sum = 0;

	codes[1] = OmniRpcCall("callbacks.count", i, &sum, add_one);
	if (!strstr(OmniRpcLastErrorText(), "tick runs for a call of the "
					    "program's other session"))
		codes[1] = 0;
	codes[2] = OmniRpcWait(ended);
	codes[3] = grpc_call(&count, i, &sum, add_one);
	*total = sum;
}

int main(int argc, char *argv[])
{
	int sum = 0, last = 0;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	if (grpc_initialize(NULL) ||
	    grpc_function_handle_default(&count, (char *)"callbacks/count"))
		return 1;
	if (OmniRpcCall("callbacks.count", 1, &sum, call_grid) || sum != 1 ||
	    codes[0] != GRPC_RPC_REFUSED)
		return 2;
	ended = OmniRpcCallAsync("callbacks.count", 3, &last, add_one);
	if (OmniRpcWait(ended) || last != 4)
		return 3;
	if (grpc_call(&count, 1, &sum, call_omni) || sum != 2)
		return 4;
	if (codes[1] != OMRPC_E_REFUSED || codes[2] || codes[3])
		return 5;
	OmniRpcDestroyRequest(ended);
	if (OmniRpcCall("callbacks.count", 2, &sum, add_one) || sum != 3)
		return 6;
	if (grpc_finalize() || OmniRpcFinalize())
		return 7;
	printf("right\n");
	return 0;
}
