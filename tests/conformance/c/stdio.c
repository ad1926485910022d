/* SPDX-License-Identifier: MIT */
/* Files through the C library's streams. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "say.h"

static void check_text(void)
{
	char line[100];
	FILE *f = fopen("text.txt", "w");
	int i, n, sum = 0;

	CHECK(f);
	for (i = 0; i < 10000; i++)
		fprintf(f, "line %d\n", i);
	CHECK(fclose(f) == 0);
	f = fopen("text.txt", "r");
	for (i = 0; fgets(line, sizeof(line), f); i++)
		if (sscanf(line, "line %d", &n) == 1)
			sum += n;
	CHECK(i == 10000 && sum == 49995000);
	CHECK(feof(f) && !ferror(f));
	CHECK(fseek(f, 5, SEEK_SET) == 0 && getc(f) == '0');
	CHECK(fseek(f, -5, SEEK_END) == 0 && getc(f) == '9');
	rewind(f);
	CHECK(getc(f) == 'l' && ungetc('L', f) == 'L' && getc(f) == 'L');
	CHECK(fclose(f) == 0);
}

static void check_modes(void)
{
	char buf[100] = "";
	FILE *f = fopen("modes.txt", "w+");

	CHECK(f && fputs("hello world", f) >= 0);
	CHECK(fseek(f, 6, SEEK_SET) == 0 && fputs("WORLD", f) >= 0);
	rewind(f);
	CHECK(fgets(buf, sizeof(buf), f) && !strcmp(buf, "hello WORLD"));
	CHECK(fclose(f) == 0);
	f = fopen("modes.txt", "a+");
	CHECK(f && fputs("!", f) >= 0 && fseek(f, 0, SEEK_SET) == 0);
	CHECK(fputs("?", f) >= 0 && fclose(f) == 0);
	f = fopen("modes.txt", "r");
	CHECK(fread(buf, 1, sizeof(buf), f) == 13);
	CHECK(!strncmp(buf, "hello WORLD!?", 13));
	CHECK(fputs("x", f) == EOF);
	CHECK(fclose(f) == 0);
	CHECK(fopen("modes.txt", "wx") == NULL && errno == EEXIST);
	CHECK(fopen("none.txt", "r+") == NULL && errno == ENOENT);
}

static void check_binary(void)
{
	static double values[5000], back[5000];
	FILE *f = fopen("data.bin", "wb");
	int i;

	for (i = 0; i < 5000; i++)
		values[i] = i * 0.37;
	CHECK(fwrite(values, sizeof(double), 5000, f) == 5000);
	CHECK(fclose(f) == 0);
	f = fopen("data.bin", "rb");
	setvbuf(f, NULL, _IOFBF, 300);
	CHECK(fread(back, sizeof(double), 6000 - 1000, f) == 5000);
	CHECK(!memcmp(values, back, sizeof(values)));
	CHECK(fread(back, 1, 1, f) == 0 && feof(f));
	CHECK(fclose(f) == 0);
}

static void check_temporary(void)
{
	char name[] = "tempXXXXXX", *memory;
	size_t size;
	int fd = mkstemp(name);
	FILE *f = fdopen(fd, "w+");

	CHECK(f && fprintf(f, "%d", 1234) == 4 && fflush(f) == 0);
	CHECK(lseek(fd, 0, SEEK_CUR) == 4);
	CHECK(fclose(f) == 0 && unlink(name) == 0);
	f = open_memstream(&memory, &size);
	CHECK(f && fprintf(f, "%s-%05.2f", "mem", 3.14159) == 9);
	CHECK(fclose(f) == 0 && size == 9 && !strcmp(memory, "mem-03.14"));
	free(memory);
}

int main(void)
{
	check_text();
	check_modes();
	check_binary();
	check_temporary();
	CHECK(remove("text.txt") == 0);
	CHECK(rename("modes.txt", "data.bin") == 0);
	CHECK(remove("data.bin") == 0);
	return say_done();
}
