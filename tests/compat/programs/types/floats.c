/* SPDX-License-Identifier: MIT */
/* A float is passed as double and arrives as float. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	float b[2] = {1.5f, 0}, c = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_float", 0.1f, b, &c);
	if (b[0] != 1.5f || b[1] != 0.1f || c != 0.025f)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
