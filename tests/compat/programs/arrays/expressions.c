/* SPDX-License-Identifier: MIT */
/* Sizes with ?:, %, ^ and comparisons: 10 % 100 - 4. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int a[7] = {1, 1, 1, 1, 1, 1, 1}, count = 1, i;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.computed", 5, a, &count);
	for (i = 0; i < 6; i++)
		if (a[i])
			return 1;
	if (count || a[6] != 1)
		return 2;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
