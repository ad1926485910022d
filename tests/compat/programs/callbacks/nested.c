/* SPDX-License-Identifier: MIT */
/*
 * Functions of this program that workers call, and that call workers:
 *
 *	nested [DEPTH]
 *
 * DEPTH functions, 4 by default, run within one another.
 */
#include <OmniRpc.h>

static int depth, wanted = 4, code;
static char text[300];

/* Each adds 1 to what the one below it gives. */
static void go_deeper(int i, int *total)
{
	int below = 0, error;

	(void)i;
	if (++depth < wanted) {
		error = OmniRpcCall("callbacks.count", 1, &below, go_deeper);
		if (error && !code) {
			code = error;
			strncpy(text, OmniRpcLastErrorText(), sizeof(text) - 1);
		}
	}
	*total = below + 1;
}

static void put_square(int i, int *v)
{
	*v = i * i;
}

static void call_four(int i, int *total)
{
	OmniRpcRequest r[4];
	int out[3][5], twice = 0, n = 0, k;

	for (k = 0; k < 3; k++)
		r[k] = OmniRpcCallAsync("callbacks.by_c", 5, out[k],
					put_square);
	r[3] = OmniRpcCallAsync("callbacks.twice", i, &twice);
	for (k = 0; k < 4; k++)
		n += OmniRpcWaitAny(4, r) >= 0;
	for (k = 0; k < 4; k++)
		OmniRpcDestroyRequest(r[k]);
	for (k = 0; k < 3; k++)
		n += out[k][4];
	*total = n + twice;
}

int main(int argc, char *argv[])
{
	OmniRpcRequest r[6];
	int total = 0, all[6], i;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	if (argc > 1)
		wanted = atoi(argv[1]);
	OmniRpcCall("callbacks.count", 1, &total, go_deeper);
	if (code) {
		printf("depth %d: code %d: %s\n", depth, code, text);
		return code != OMRPC_E_REFUSED || total != wanted - 1;
	}
	if (total != wanted)
		return 1;
	/* More calls than slots, each of which waits for four others, twice. */
	for (i = 0; i < 6; i++)
		r[i] = OmniRpcCallAsync("callbacks.count", 2, &all[i],
					call_four);
	OmniRpcWaitAll(6, r);
	for (i = 0; i < 6; i++) {
		if (OmniRpcWait(r[i]) || all[i] != 4 + 3 * 16 + 4)
			return 2;
	}
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
