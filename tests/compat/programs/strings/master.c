/* SPDX-License-Identifier: MIT */
/* Strings that come out, arrays of strings, empty ones and null pointers. */
#include <OmniRpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char *argv[])
{
	char *in[4] = {"one", "", NULL, "four"}, *out[4], *s, first[] = "lower";
	char *both[2] = {first, "old"};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("strings.greet", "you", &s);
	if (strcmp(s, "hello you"))
		return 1;
	free(s);
	OmniRpcCall("strings.same", "", &s);
	if (strcmp(s, ""))
		return 2;
	OmniRpcCall("strings.turn", 4, in, out);
	if (strcmp(out[0], "four") || out[1] || *out[2] ||
	    strcmp(out[3], "one"))
		return 3;
	OmniRpcCall("strings.turn", 0, NULL, NULL);
	OmniRpcCall("strings.upper", both);
	if (strcmp(both[0], "Lower") || strcmp(both[1], "new") || *first != 'l')
		return 4;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
