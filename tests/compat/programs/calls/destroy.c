/* SPDX-License-Identifier: MIT */
/* Requests of 200 calls are freed one by one. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0, i;
	OmniRpcRequest request;

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < 200; i++) {
		request = OmniRpcCallAsync("calls.squared", i, &r);
		OmniRpcWait(request);
		OmniRpcDestroyRequest(request);
		if (r != i * i)
			return 1;
	}
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
