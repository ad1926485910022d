/* SPDX-License-Identifier: MIT */
/* Elements between those of a stride are zero there. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, sum = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.strided", 8, a, &sum);
	if (sum != 1 + 4 + 7)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
