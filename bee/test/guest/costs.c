/* SPDX-License-Identifier: MIT */
/*
 * Makes one kind of call N times between two marks, which are calls that name
 * the files `first` and `last`. usage: costs open|stat|fstat|clock N
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int file;

static int call_open(void)
{
	int fd = open("folder/file", O_RDONLY);

	return fd < 0 ? -1 : close(fd);
}

static int call_stat(void)
{
	struct stat st;

	return stat("folder/file", &st);
}

static int call_fstat(void)
{
	struct stat st;

	return fstat(file, &st);
}

static int call_clock(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_MONOTONIC, &t) |
	       clock_gettime(CLOCK_REALTIME, &t);
}

static const struct {
	const char *name;
	int (*call)(void);
} kinds[] = {{"open", call_open},
	     {"stat", call_stat},
	     {"fstat", call_fstat},
	     {"clock", call_clock}};

static int calls_repeat(const char *name, int count)
{
	unsigned int k;
	int i;

	for (k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		if (strcmp(kinds[k].name, name))
			continue;
		for (i = 0; i < count; i++)
			if (kinds[k].call())
				return 1;
		return 0;
	}
	return 2;
}

int main(int argc, char **argv)
{
	int code;

	file = open("folder/file", O_RDONLY);
	if (argc != 3 || file < 0 || call_fstat())
		return 2;
	access("first", F_OK);
	code = calls_repeat(argv[1], atoi(argv[2]));
	access("last", F_OK);
	printf("%s %d\n", argv[1], code);
	return code;
}
