// SPDX-License-Identifier: MIT
/*
 * Makes one call that calls this program N times:
 *
 *	called N LOG
 *
 * Prints "right", or how the call ended.
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <OmniRpc.h>

static const char *log_name;

static void square_it(int i, int *v)
{
	chaos_pass(log_name, "in", i);
	*v = i * i;
	chaos_pass(log_name, "out", i);
}

int main(int argc, char **argv)
{
	int n, sum = 0, code;

	OmniRpcInit(&argc, &argv);
	if (argc != 3)
		return 2;
	n = atoi(argv[1]);
	log_name = argv[2];
	code = OmniRpcCall("turns.turn", n, argv[2], &sum, square_it);
	if (code)
		printf("failed: %s\n", OmniRpcLastErrorText());
	else if (sum != n * (n + 1) * (2 * n + 1) / 6)
		printf("wrong: %d\n", sum);
	else
		printf("right\n");
	OmniRpcFinalize();
	return !!code;
}
