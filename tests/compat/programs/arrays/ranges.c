/* SPDX-License-Identifier: MIT */
/* Only the elements of a range travel. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int a[7] = {0, 1, 2, 3, 4, 5, 6}, i;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.ranged", 7, a);
	for (i = 0; i < 7; i++)
		if (a[i] != (i >= 2 && i < 5 ? i + 100 : i))
			return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
