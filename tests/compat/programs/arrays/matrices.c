/* SPDX-License-Identifier: MIT */
/* Matrices in row-major order. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	double a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[3][2];

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.matrix", 2, 3, a, b);
	if (b[0][0] != 1 || b[0][1] != 4 || b[2][0] != 3 || b[2][1] != 6)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
