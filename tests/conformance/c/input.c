/* SPDX-License-Identifier: MIT */
/* Standard input to its end: lines, bytes, a checksum. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	unsigned lines = 0, bytes = 0, sum = 0;
	int c;

	while ((c = getchar()) != EOF) {
		lines += c == '\n';
		sum = sum * 31 + c;
		bytes++;
	}
	printf("%u lines, %u bytes, sum %08x, terminal %d\n", lines, bytes, sum,
	       isatty(0));
	return ferror(stdin) != 0;
}
