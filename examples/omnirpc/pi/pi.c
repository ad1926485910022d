/* SPDX-License-Identifier: MIT */
/* Eight calls at once, each of which computes a part of pi. */
#include <OmniRpc.h>

#define PARTS 8

int main(int argc, char *argv[])
{
	OmniRpcRequest request[PARTS];
	double part[PARTS], pi = 0;
	int i;

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < PARTS; i++)
		request[i] = OmniRpcCallAsync("pi.strip", i, PARTS, 10000000,
					      &part[i]);
	OmniRpcWaitAll(PARTS, request);
	for (i = 0; i < PARTS; i++)
		pi += part[i];
	OmniRpcFinalize();
	printf("pi is %.10f\n", pi);
	return 0;
}
