/* SPDX-License-Identifier: MIT */
/* Methods of a class, and the one that runs first. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int n = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("bodies.begun_at", &n);
	if (n != 42)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
