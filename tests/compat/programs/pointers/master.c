/* SPDX-License-Identifier: MIT */
/* Open files: those that go in are read from their begin, what comes can be
 * read at once. */
#include <OmniRpc.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char *argv[])
{
	FILE *in[2] = {tmpfile(), tmpfile()}, *out = tmpfile(), *none = NULL;
	char got[100] = "";
	int sum = 0;

	OmniRpcInit(&argc, &argv);
	fprintf(in[0], "1 2 3");
	fprintf(in[1], "4 5");
	OmniRpcCall("pointers.total", in, &sum, &out);
	if (sum != 15 || !fgets(got, 100, out) || strcmp(got, "sum 15\n"))
		return 1;
	OmniRpcCall("pointers.total", in, &sum, &none);
	if (!none || !fgets(got, 100, none) || strcmp(got, "sum 15\n"))
		return 2;
	OmniRpcCall("pointers.fill", none);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
