/* SPDX-License-Identifier: MIT */
/* Runs a command while it has two objects, one of which is lost. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	OmniRpcObject o[2];
	int i;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	for (i = 0; i < 2; i++) {
		o[i] = OmniRpcCreateObject(NULL, "objects/sum");
		OmniRpcCallByObject(o[i], "add", 1.0);
	}
	OmniRpcCallByObject(o[0], "die", 3);
	i = system(argv[1]);
	OmniRpcDestroyObject(o[1]);
	OmniRpcFinalize();
	return i != 0;
}
