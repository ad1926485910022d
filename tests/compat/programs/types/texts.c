/* SPDX-License-Identifier: MIT */
/* Strings: an empty one and one of 100,000 characters. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int length = -1;
	char *text = malloc(100001);

	OmniRpcInit(&argc, &argv);
	memset(text, 'x', 100000);
	text[100000] = 0;
	OmniRpcCall("types.of_string", text, &length);
	if (length != 100000)
		return 1;
	OmniRpcCall("types.of_string", "", &length);
	if (length)
		return 2;
	free(text);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
