/* SPDX-License-Identifier: MIT */
/* A list of arguments to a handle. */
#include <OmniRpc.h>

static int call_list(OmniRpcHandle handle, char *name, ...)
{
	va_list list;
	int code;

	va_start(list, name);
	code = OmniRpcCallByHandleV(handle, name, list);
	va_end(list);
	return code;
}

int main(int argc, char *argv[])
{
	int a[2] = {3, 4}, r = 0;

	OmniRpcInit(&argc, &argv);
	call_list(OmniRpcCreateHandle(NULL, "calls"), "summed", 2, a, &r);
	if (r != 7)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
