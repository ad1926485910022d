/* SPDX-License-Identifier: MIT */
/* Files by name: a large one, changed ones, one without a name. */
#include <OmniRpc.h>
#include <stdio.h>
#include <string.h>

static void put_text(char *name, char *text)
{
	FILE *f = fopen(name, "w");

	fputs(text, f);
	fclose(f);
}

static int name_has(char *name, char *text)
{
	char got[100] = "";
	FILE *f = fopen(name, "r");

	if (!f)
		return 0;
	fread(got, 1, 99, f);
	fclose(f);
	return !strcmp(got, text);
}

int main(int argc, char *argv[])
{
	char *two[2] = {"a", "b"}, *none = NULL;
	FILE *f = fopen("large", "w");
	int i, c, sum = 0;

	for (i = 0; i < 1000000; i++)
		fputc(i % 251, f);
	fclose(f);
	OmniRpcInit(&argc, &argv);
	OmniRpcCall("names.copy", "large", "copy");
	f = fopen("copy", "r");
	for (i = 0; (c = fgetc(f)) != EOF; i++)
		sum += c != i % 251;
	if (i != 1000000 || sum)
		return 1;
	put_text("a", "x");
	put_text("b", "");
	OmniRpcCall("names.add", two);
	if (!name_has("a", "x0") || !name_has("b", "1"))
		return 2;
	OmniRpcCall("names.own", &none);
	if (!none || !name_has(none, "mine"))
		return 3;
	remove(none);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
