/* SPDX-License-Identifier: MIT */
/* ModuleInit with a list of arguments. */
#include <OmniRpc.h>

static int init_list(char *module, ...)
{
	va_list list;
	int code;

	va_start(list, module);
	code = OmniRpcModuleInitV(module, list);
	va_end(list);
	return code;
}

int main(int argc, char *argv[])
{
	double a = 9, sum = 0;

	OmniRpcInit(&argc, &argv);
	init_list("state", 1, &a);
	OmniRpcCall("state.kept_sum", &sum);
	if (sum != 9)
		return 1;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
