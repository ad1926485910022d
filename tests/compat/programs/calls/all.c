/* SPDX-License-Identifier: MIT */
/* Ten calls at once. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r[10], i;
	OmniRpcRequest request[10];

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < 10; i++)
		request[i] = OmniRpcCallAsync("calls.squared", i, &r[i]);
	OmniRpcWaitAll(10, request);
	for (i = 0; i < 10; i++)
		if (r[i] != i * i)
			return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
