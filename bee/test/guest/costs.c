/* SPDX-License-Identifier: MIT */
/*
 * Makes one kind of call N times between two marks, which are calls that name
 * the files `first` and `last`. usage: costs open|stat|fstat|clock|writer|full
 * N
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int file, ends[2], counter;

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

/* Nothing happens until the end of the wait. */
static int await_nothing(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, 500);
}

static int call_writer(void)
{
	return await_nothing(ends[1], 0);
}

static int call_full(void)
{
	return await_nothing(counter, POLLOUT);
}

/* The pipe and the eventfd are such as processes share. */
static int make_shared(void)
{
	const uint64_t full = UINT64_MAX - 1;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	counter = eventfd(0, 0);
	return pid < 0 || waitpid(pid, NULL, 0) != pid || pipe(ends) ||
	       write(counter, &full, sizeof(full)) != sizeof(full) ||
	       call_writer() || call_full();
}

static const struct {
	const char *name;
	int (*call)(void);
} kinds[] = {{"open", call_open},     {"stat", call_stat},
	     {"fstat", call_fstat},   {"clock", call_clock},
	     {"writer", call_writer}, {"full", call_full}};

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
	if ((!strcmp(argv[1], "writer") || !strcmp(argv[1], "full")) &&
	    make_shared())
		return 3;
	access("first", F_OK);
	code = calls_repeat(argv[1], atoi(argv[2]));
	access("last", F_OK);
	printf("%s %d\n", argv[1], code);
	return code;
}
