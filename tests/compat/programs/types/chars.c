/* SPDX-License-Identifier: MIT */
/* Characters by value, in an array and back. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	char c[3] = {-5, 0, 7}, d = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_char", -128, 200, c, &d);
	if (c[0] != -5 || c[1] != -128 || c[2] != 7 || d != -5)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
