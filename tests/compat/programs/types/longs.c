/* SPDX-License-Identifier: MIT */
/* Long integers have 8 bytes. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	long c = 0;
	long long d = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("types.of_long", -(1l << 62), 1ul << 40, &c, &d);
	if (c != -(1l << 62) - 1 || d != 1ll << 40)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
