/* SPDX-License-Identifier: MIT */
/* Doubles keep each bit. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	double b[2] = {-0.0, 0}, c = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_double", 1e308, b, &c);
	if (1 / b[0] >= 0 || b[1] != 1e308 || c != 1e308 / 3)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
