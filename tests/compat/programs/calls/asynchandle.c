/* SPDX-License-Identifier: MIT */
/* Calls by a handle in the background. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	OmniRpcHandle handle;
	OmniRpcRequest request[2];
	int r[2];

	OmniRpcInit(&argc, &argv);
	handle = OmniRpcCreateHandle(NULL, "calls");
	request[0] = OmniRpcCallAsyncByHandle(handle, "squared", 8, &r[0]);
	request[1] = OmniRpcCallAsyncByHandle(handle, "squared", 9, &r[1]);
	OmniRpcWaitAll(2, request);
	if (r[0] != 64 || r[1] != 81)
		return 1;
	OmniRpcDestroyHandle(handle);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
