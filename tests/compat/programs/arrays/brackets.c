/* SPDX-License-Identifier: MIT */
/* [] is one element. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	double a = 21, b = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.one_element", &a, &b);
	if (b != 42)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
