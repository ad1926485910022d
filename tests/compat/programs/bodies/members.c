/* SPDX-License-Identifier: MIT */
/* Bodies that take complex numbers for structures. */
#include <OmniRpc.h>
#include <complex.h>

int main(int argc, char *argv[])
{
	double _Complex z = 6 + 7 * I;
	float _Complex a[2] = {1 + 5 * I, 0};
	double r = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("bodies.members", z, &r, a);
	if (r != 42 || a[1] != 5)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
