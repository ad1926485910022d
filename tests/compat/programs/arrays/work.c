/* SPDX-License-Identifier: MIT */
/* A WORK array has an argument, which is not used. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int a[3] = {1, 2, 3}, b[3] = {0, 0, 0};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.scratch", 3, a, NULL, b);
	if (b[0] != 3 || b[1] != 2 || b[2] != 1)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
