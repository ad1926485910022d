/* SPDX-License-Identifier: MIT */
/* ModuleInit after calls to another module; workers that are reserved. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0, n = 0, seen = -1;
	double a = 1;

	OmniRpcInit(&argc, &argv);
	if (OmniRpcModuleReserve(4))
		return 1;
	OmniRpcCall("calls.squared", 3, &r);
	OmniRpcModuleInit("state", 1, &a);
	OmniRpcCall("state.kept_count", &n, &seen);
	if (r != 9 || n != 1 || seen)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
