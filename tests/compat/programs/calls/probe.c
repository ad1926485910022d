/* SPDX-License-Identifier: MIT */
/* Probe says when a call has ended. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0;
	OmniRpcRequest request;

	OmniRpcInit(&argc, &argv);
	request = OmniRpcCallAsync("calls.squared", 6, &r);
	while (!OmniRpcProbe(request))
		;
	OmniRpcWait(request);
	if (r != 36)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
