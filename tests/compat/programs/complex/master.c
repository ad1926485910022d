/* SPDX-License-Identifier: MIT */
/* Single complex numbers, by value and by address. */
#include <OmniRpc.h>
#include <complex.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
	double _Complex a = 1 + 2 * I, p = 0;
	float _Complex b = 3 - I, q = 2 * I;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("complex.times", a, b, &p, &q);
	if (p != a * b || q != 2 * I * b)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
