/* SPDX-License-Identifier: MIT */
/* Files by name: the node gets a copy of the one, and makes the other. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int words = 0;

	OmniRpcInit(&argc, &argv);
	if (argc != 3) {
		fprintf(stderr, "usage: file TEXT COUNTS\n");
		return 2;
	}
	OmniRpcCall("file.count_words", argv[1], argv[2], &words);
	OmniRpcFinalize();
	printf("%d words\n", words);
	return 0;
}
