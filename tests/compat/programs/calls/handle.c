/* SPDX-License-Identifier: MIT */
/* A handle names the module once. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	OmniRpcHandle handle;
	int r = 0;

	OmniRpcInit(&argc, &argv);
	handle = OmniRpcCreateHandle(NULL, "calls");
	OmniRpcCallByHandle(handle, "squared", 7, &r);
	OmniRpcDestroyHandle(handle);
	if (r != 49)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
