/* SPDX-License-Identifier: MIT */
/* A call in the background and the wait for it. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0;
	OmniRpcRequest request;

	OmniRpcInit(&argc, &argv);
	request = OmniRpcCallAsync("calls.squared", 5, &r);
	OmniRpcWait(request);
	if (r != 25)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
