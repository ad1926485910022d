/* SPDX-License-Identifier: MIT */
/* Bodies use the standard headers without an include. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int r = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("bodies.failed", &r);
	if (r != 1)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
