/* SPDX-License-Identifier: MIT */
/* Null pointers, arrays without elements, and names without characters. */
#include <OmniRpc.h>

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       OmniRpcLastErrorText());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

static int asked;

static void give_answer(char *s, int *null)
{
	asked++;
	*null = !s;
}

int main(int argc, char *argv[])
{
	char *s = argv[0], *in[1] = {argv[0]}, *out[1];
	FILE *file = tmpfile();
	double x[1] = {1};
	long length = -1;
	int mask = -1;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	CHECK(!OmniRpcCall("strings.nulls", NULL, NULL, NULL, 0, NULL, NULL,
			   NULL, NULL, NULL, &mask));
	CHECK(mask == 255);
	CHECK(!OmniRpcCall("strings.nulls", "", "", file, 0, x, x, NULL, in,
			   out, &mask));
	CHECK(mask == 248);
	CHECK(!OmniRpcCall("strings.nulls", "", "", file, 1, x, x, NULL, in,
			   out, &mask));
	CHECK(mask == 0);
	free(out[0]);
	CHECK(!OmniRpcCall("strings.same", NULL, &s) && !s);
	CHECK(!OmniRpcCall("strings.lengths", "", "", 0, &length) && !length);
	/* There is no place for what is written. */
	CHECK(OmniRpcCall("strings.lengths", "", "", 1, &length) < 0);
	CHECK(OmniRpcCall("strings.lengths", "", NULL, 0, &length) ==
	      OMRPC_E_ARGUMENTS);
	CHECK(strstr(OmniRpcLastErrorText(),
		     "argument g of strings.lengths: it is a null pointer"));
	CHECK(OmniRpcCall("strings.nulls", "", "", file, 1, NULL, x, NULL, in,
			  out, &mask) == OMRPC_E_ARGUMENTS);
	CHECK(!OmniRpcCall("strings.ask", NULL, &s, give_answer) && !s);
	CHECK(!OmniRpcCall("strings.ask", "", &s, give_answer) && s && !*s);
	CHECK(asked == 2);
	free(s);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
