// SPDX-License-Identifier: MIT
/* Calls the function of hello.c on any free node. */
#include <OmniRpc.h>

#include <stdio.h>

int main(int argc, char **argv)
{
	double x[] = {1, 2, 3, 4}, sum = 0;

	if (OmniRpcInit(&argc, &argv) != OMRPC_OK)
		return 1;
	if (OmniRpcCall("hello.scale", 4, 10.0, x, &sum) != OMRPC_OK) {
		fprintf(stderr, "%s\n", OmniRpcLastErrorText());
		return 1;
	}
	printf("%g %g %g %g, together %g\n", x[0], x[1], x[2], x[3], sum);
	return OmniRpcFinalize() != OMRPC_OK;
}
