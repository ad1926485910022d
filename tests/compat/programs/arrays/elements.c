/* SPDX-License-Identifier: MIT */
/* A size that is an element of an array. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int list[3] = {9, 9, 4}, a[4] = {1, 2, 3, 4}, last = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("arrays.listed", list, a, &last);
	if (last != 4)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
