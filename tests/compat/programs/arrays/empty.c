/* SPDX-License-Identifier: MIT */
/* Arrays without elements need no memory. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int sum = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.no_element", 0, NULL, NULL, &sum);
	if (sum != 7)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
