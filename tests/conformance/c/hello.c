/* SPDX-License-Identifier: MIT */
/* The smallest program: standard output, standard error, exit code. */
#include <stdio.h>

int main(void)
{
	printf("hello, world\n");
	fprintf(stderr, "hello, stderr\n");
	return 7;
}
