/* SPDX-License-Identifier: MIT */
/* A second ModuleInit is for later calls. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	double a[2] = {1, 2}, b = 50, sum = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcModuleInit("state", 2, a);
	OmniRpcCall("state.kept_sum", &sum);
	if (sum != 3)
		return 1;
	OmniRpcModuleInit("state", 1, &b);
	OmniRpcCall("state.kept_sum", &sum);
	if (sum != 50)
		return 2;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
