/* SPDX-License-Identifier: MIT */
/* Short integers, with and without a sign. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	short c = 300, d[2] = {0, 0};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_short", -32768, 65535, &c, d);
	if (c != -300 || d[0] != -32768 || d[1] != 5535)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
