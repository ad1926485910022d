// SPDX-License-Identifier: MIT
/*
 * Reads a byte of a file so many times, between marks 6 on a partition; or is
 * the bracket: marks 7 or 10 on its processor while its input is open.
 *
 * usage: sms_calls FILE TIMES [wait], or sms_calls bracket short|long, or
 * sms_calls list FOLDER
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <skep/mark.h>

static int bracket_calls(int is_long)
{
	char byte;

	if (is_long)
		SKEP_MARK_BEGIN(10);
	else
		SKEP_MARK_BEGIN(7);
	puts("begun");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	if (is_long)
		SKEP_MARK_END(10);
	else
		SKEP_MARK_END(7);
	return 0;
}

static int list_names(const char *path)
{
	DIR *d = opendir(path);
	unsigned long sum = 0;
	struct dirent *e;
	int n = 0;

	for (; d && (e = readdir(d)); n++)
		sum += strtoul(e->d_name, NULL, 10) + e->d_type;
	printf("names %d sum %lu\n", n, sum);
	return !d;
}

int main(int argc, char **argv)
{
	int fd, i, n, bad = 0;
	char byte;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "list"))
		return list_names(argv[2]);
	if (!strcmp(argv[1], "bracket"))
		return bracket_calls(!strcmp(argv[2], "long"));
	fd = open(argv[1], O_RDONLY);
	n = atoi(argv[2]);
	for (i = 0; i < 10; i++)
		bad += pread(fd, &byte, 1, i) != 1;
	SKEP_MARK_BEGIN(6);
	for (i = 0; i < n; i++)
		bad += pread(fd, &byte, 1, 100) != 1;
	SKEP_MARK_END(6);
	printf("read %d\n", bad);
	fflush(stdout);
	while (argc > 3 && read(0, &byte, 1) > 0)
		;
	return bad != 0;
}
