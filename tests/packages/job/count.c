// SPDX-License-Identifier: MIT
/*
 * Calls a function 40 times. Half way it waits for a file, so that a test knows
 * what happens while the program runs: count FILE
 */
#include <OmniRpc.h>

#include <stdio.h>
#include <unistd.h>

#define CALLS 40

int main(int argc, char **argv)
{
	int right = 0;

	if (argc < 2 || OmniRpcInit(&argc, &argv) != OMRPC_OK)
		return 1;
	for (int n = 1; n <= CALLS; n++) {
		double result = 0;

		while (n == CALLS / 2 && access(argv[1], F_OK))
			usleep(100000);
		if (OmniRpcCall("slow.square", n, &result) != OMRPC_OK)
			fprintf(stderr, "%s\n", OmniRpcLastErrorText());
		right += result == (double)n * n;
		printf("call %d\n", n);
		fflush(stdout);
	}
	printf("all %d calls are right\n", right);
	return OmniRpcFinalize() != OMRPC_OK || right != CALLS;
}
