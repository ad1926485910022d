/* SPDX-License-Identifier: MIT */
/*
 * Writes COUNT lines of TAG to the descriptor FD, each as a vector of two
 * pieces and at once; makes in the middle a call that bee refuses when told so.
 * usage: lines FD TAG COUNT [refused]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd, count, i, n;
	char number[32];
	struct iovec v[2];

	if (argc < 4)
		return 2;
	fd = atoi(argv[1]);
	count = atoi(argv[3]);
	for (i = 0; i < count; i++) {
		if (i == count / 2 && argc > 4 &&
		    ptrace(PTRACE_TRACEME, 0, NULL, NULL) >= 0)
			return 3;
		n = snprintf(number, sizeof(number), " %d\n", i);
		v[0] = (struct iovec){argv[2], strlen(argv[2])};
		v[1] = (struct iovec){number, (size_t)n};
		if (writev(fd, v, 2) != (ssize_t)v[0].iov_len + n)
			return 1;
	}
	return 0;
}
