/* SPDX-License-Identifier: MIT */
/* A search in parts. The items travel with OmniRpcModuleInit, not with each
 * call, and the results are taken as they come. */
#include <OmniRpc.h>

#define ITEMS 22
#define DEPTH 5
#define PARTS (1 << DEPTH)

int main(int argc, char *argv[])
{
	OmniRpcRequest request[PARTS];
	int weight[ITEMS], value[ITEMS], result[PARTS], i, k, best = 0;

	for (i = 0; i < ITEMS; i++) {
		weight[i] = 20 + i * 37 % 41;
		value[i] = 30 + i * 53 % 67;
	}
	OmniRpcInit(&argc, &argv);
	OmniRpcModuleInit("knapsack", ITEMS, weight, value, 300);
	for (i = 0; i < PARTS; i++)
		request[i] = OmniRpcCallAsync("knapsack.search", DEPTH, i,
					      &result[i]);
	for (i = 0; i < PARTS; i++) {
		k = OmniRpcWaitAny(PARTS, request);
		if (result[k] > best)
			best = result[k];
	}
	OmniRpcFinalize();
	printf("the best value is %d\n", best);
	return 0;
}
