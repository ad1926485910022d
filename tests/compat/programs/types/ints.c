/* SPDX-License-Identifier: MIT */
/* Integers at the ends of their ranges. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int c = 0;
	unsigned d = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_int", -2147483647 - 1, 4294967294u, &c, &d);
	if (c != -2147483647 - 1 || d != 4294967295u)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
