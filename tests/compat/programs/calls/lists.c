/* SPDX-License-Identifier: MIT */
/* A call with a list of arguments. */
#include <OmniRpc.h>

static int call_list(char *name, ...)
{
	va_list list;
	int code;

	va_start(list, name);
	code = OmniRpcCallV(name, list);
	va_end(list);
	return code;
}

int main(int argc, char *argv[])
{
	int a[3] = {1, 2, 3}, r = 0;

	OmniRpcInit(&argc, &argv);
	call_list("calls.summed", 3, a, &r);
	if (r != 6)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
