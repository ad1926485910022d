// SPDX-License-Identifier: MIT
/*
 * Makes CALLS calls, whose results of N numbers each are too large for a
 * message, and stops itself before it takes them:
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

static int check_numbers(const int *data, int n, int number)
{
	int i;

	for (i = 0; i < n && data[i] == number + i; i++)
		;
	return i == n;
}

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
	for (i = 0; i < calls; i++)
		request[i] =
			OmniRpcCallAsync("chaos.fill", i, n,
					 data + (size_t)i * (size_t)n, argv[3]);
	raise(SIGSTOP);
	for (i = 0; i < calls; i++) {
		if (!request[i] || OmniRpcWait(request[i]))
			printf("call %d: %s\n", i, OmniRpcLastErrorText());
		else
			right += check_numbers(data + (size_t)i * (size_t)n, n,
					       i);
	}
	printf("%d right\n", right);
	OmniRpcFinalize();
	return right != calls;
}
