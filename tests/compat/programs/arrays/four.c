/* SPDX-License-Identifier: MIT */
/* Four dimensions. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	char a[2][2][2][3];
	int i, bad = 0;

	OmniRpcInit(&argc, &argv);
	memset(a, 'a', sizeof(a));
	OmniRpcCall("arrays.four", 2, a);
	for (i = 0; i < 24; i++)
		bad += ((char *)a)[i] != 'b';
	if (bad)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
