/* SPDX-License-Identifier: MIT */
/* All workers of a module get the arguments of ModuleInit. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	double a[3] = {1, 2, 4}, sum[8];
	int i;
	OmniRpcRequest request[8];

	OmniRpcInit(&argc, &argv);
	OmniRpcModuleInit("state", 3, a);
	a[0] = a[1] = a[2] = 0;
	for (i = 0; i < 8; i++)
		request[i] = OmniRpcCallAsync("state.kept_sum", &sum[i]);
	OmniRpcWaitAll(8, request);
	for (i = 0; i < 8; i++)
		if (sum[i] != 7)
			return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
