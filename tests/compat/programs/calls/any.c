/* SPDX-License-Identifier: MIT */
/* Each call is returned once by WaitAny. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r[5], seen[5] = {0}, i, k;
	OmniRpcRequest request[5];

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < 5; i++)
		request[i] = OmniRpcCallAsync("calls.squared", i, &r[i]);
	for (i = 0; i < 5; i++) {
		k = OmniRpcWaitAny(5, request);
		if (k < 0 || seen[k]++ || r[k] != k * k)
			return 1;
	}
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
