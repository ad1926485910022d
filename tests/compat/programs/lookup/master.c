/* SPDX-License-Identifier: MIT */
/* Bare names are looked up in all modules; OmniRPC's options are taken out. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	char *args[] = {argv[0], "--debug", "mine", NULL}, **list = args;
	int count = 3, one = 0, two = 0, kept = 0;
	void *request[2];

	(void)argc;
	OmniRpcInit(&count, &list);
	if (count != 2 || strcmp(list[1], "mine") || list[2])
		return 1;
	request[0] = OmniRpcCallAsync("two", &two);
	request[1] = OmniRpcCallAsync("one", &one);
	OmniRpcWaitAll(2, request);
	if (one != 1 || two != 2)
		return 2;
	OmniRpcModuleInit("first", 9);
	OmniRpcCall("kept", &kept);
	if (kept != 9)
		return 3;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
