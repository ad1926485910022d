// SPDX-License-Identifier: MIT
/*
 * Makes CALLS calls, whose N numbers each are too large for a message, and
 * stops itself before it takes the results:
 *
 *	large CALLS N LOG
 *
 * Exit status 1: a result is not right.
 */
#include "chaos.h"

#include <OmniRpc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int calls, n, i, right = 0;
	OmniRpcRequest *request;
	int *data;

	OmniRpcInit(&argc, &argv);
	if (argc != 4)
		return 2;
	calls = atoi(argv[1]);
	n = atoi(argv[2]);
	request = calloc((size_t)calls, sizeof(*request));
	data = calloc((size_t)calls * (size_t)n, sizeof(*data));
	for (i = 0; i < calls; i++) {
		chaos_number(data + (size_t)i * (size_t)n, n);
		request[i] =
			OmniRpcCallAsync("chaos.add", i, n,
					 data + (size_t)i * (size_t)n, argv[3]);
	}
	raise(SIGSTOP);
	for (i = 0; i < calls; i++) {
		if (!request[i] || OmniRpcWait(request[i]))
			printf("call %d: %s\n", i, OmniRpcLastErrorText());
		else
			right += chaos_is_added(data + (size_t)i * (size_t)n, n,
						i);
	}
	printf("%d right\n", right);
	OmniRpcFinalize();
	return right != calls;
}
