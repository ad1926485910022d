/* SPDX-License-Identifier: MIT */
/* Eight million bytes there and back. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	long long n = 1000000, i;
	double *a = malloc(n * sizeof(*a));

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < n; i++)
		a[i] = i;
	OmniRpcCall("arrays.doubled", n, a);
	for (i = 0; i < n; i++)
		if (a[i] != 2 * i)
			return 1;
	free(a);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
