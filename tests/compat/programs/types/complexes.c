/* SPDX-License-Identifier: MIT */
/* Arrays of complex numbers. */
#include <OmniRpc.h>
#include <complex.h>

int main(int argc, char *argv[])
{
	float _Complex a[2] = {2, I};
	double _Complex b[2] = {1 + I, 3};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_complex", 2, a, b);
	if (b[0] != 2 + 2 * I || b[1] != 3 * I)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
