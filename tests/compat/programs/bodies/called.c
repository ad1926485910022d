/* SPDX-License-Identifier: MIT */
/* Calls of a C function, with a number among the arguments. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("bodies.called", 35, &r);
	if (r != 42)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
