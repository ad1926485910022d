/* SPDX-License-Identifier: MIT */
/* The smallest guest: arguments, environment, exit code. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const char *name = getenv("BEE_TEST_NAME");

	printf("hello from %d arguments, %s\n", argc,
	       name ? name : "no environment");
	return argc > 1 ? atoi(argv[1]) : 7;
}
