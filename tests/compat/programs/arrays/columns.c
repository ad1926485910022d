/* SPDX-License-Identifier: MIT */
/* A range in the second dimension. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int a[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.columns", 3, a);
	if (a[0][0] != 1 || a[0][1] != -2 || a[1][1] != -5 || a[2][1] != -8 ||
	    a[2][2] != 9)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
