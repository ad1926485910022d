/* SPDX-License-Identifier: MIT */
/* Worker programs by path, on this computer by both of its names. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	OmniRpcExecHandle program;
	OmniRpcHandle handle;
	char host[256];
	int r = 0;

	OmniRpcExecInit(&argc, &argv);
	OmniRpcExecLocal("./twice.rex", "twice", 4, &r);
	if (r != 8)
		return 1;
	OmniRpcExecRemote("localhost", "twice.rex", "twice", 5, &r);
	if (r != 10)
		return 2;
	gethostname(host, sizeof(host));
	OmniRpcExecRemoteByUser(host, NULL, "twice.rex", "twice", 6, &r);
	if (r != 12)
		return 3;
	program = OmniRpcExecOnHost(host, "twice.rex");
	OmniRpcExecCall(program, "twice", 7, &r);
	if (r != 14)
		return 4;
	OmniRpcExecTerminate(program);
	program = OmniRpcExecOnHostByUser(host, "", "twice.rex");
	OmniRpcExecCall(program, "twice", 8, &r);
	if (r != 16)
		return 5;
	handle = OmniRpcCreateHandle("localhost", "twice");
	OmniRpcCallByHandle(handle, "twice", 9, &r);
	if (r != 18)
		return 6;
	OmniRpcDestroyHandle(handle);
	OmniRpcExecFinalize();
	printf("right\n");
	return 0;
}
