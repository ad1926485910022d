/* SPDX-License-Identifier: MIT */
/* The same in the background. */
#include <OmniRpc.h>

static OmniRpcRequest call_list(char *name, ...)
{
	va_list list;
	OmniRpcRequest code;

	va_start(list, name);
	code = OmniRpcCallAsyncV(name, list);
	va_end(list);
	return code;
}

int main(int argc, char *argv[])
{
	int a[2] = {40, 2}, r = 0;

	OmniRpcInit(&argc, &argv);
	OmniRpcWait(call_list("calls.summed", 2, a, &r));
	if (r != 42)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
