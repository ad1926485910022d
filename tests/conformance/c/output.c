/* SPDX-License-Identifier: MIT */
/* More than a megabyte of standard output, in small and large pieces. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	static char block[300000];
	size_t done, i;
	ssize_t n;

	setvbuf(stdout, NULL, _IOFBF, 3000);
	for (i = 0; i < 50000; i++)
		printf("line %zu of standard output\n", i);
	fflush(stdout);
	for (i = 0; i < sizeof(block); i++)
		block[i] = i % 61 == 60 ? '\n' : 'A' + i % 61 % 26;
	for (done = 0; done < sizeof(block); done += n) {
		n = write(1, block + done, sizeof(block) - done);
		if (n <= 0)
			return 1;
	}
	for (i = 0; i < 2000; i++)
		if (write(1, "x\n", 2) != 2)
			return 1;
	return 0;
}
