/* SPDX-License-Identifier: MIT */
/* A program to be rewritten: threads' storage, errno, a loop for vectors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static __thread int mine;
static float numbers[1024];

int main(int argc, char **argv)
{
	mine = argc;
#ifdef _OPENMP
#pragma omp parallel for
#endif
	for (int i = 0; i < 1024; i++)
		numbers[i] = numbers[i] * 2 + i;
	errno = 0;
	printf("%s %d %f %ld\n", argv[0], mine, numbers[3],
	       strtol(getenv("HOME") ? "1" : "2", NULL, 0));
	return errno;
}
