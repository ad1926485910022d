/* SPDX-License-Identifier: MIT */
/* Forms of interface files that OmniRPC's and Ninf-G's users write. */
#include <OmniRpc.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
	double a[6] = {1, 2, 4, 8, 16, 32}, r;
	int k, x = 5, y;

	OmniRpcInit(&argc, &argv);
	OmniRpcModuleInit("forms", 77);
	OmniRpcCall("part", 6, a, &r, &k);
	if (r != 7 || k != 77)
		return 1;
	OmniRpcCall("pointed", &x, &y, 7ul);
	if (y != 12)
		return 2;
	OmniRpcCall("fortran", 21, &y);
	if (y != 42)
		return 3;
	OmniRpcCall("undeclared", 3, &y);
	if (y != 4)
		return 4;
	OmniRpcCall("method", 9, &y);
	if (y != 9)
		return 5;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
