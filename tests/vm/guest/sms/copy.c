// SPDX-License-Identifier: MIT
/* copy FROM TO: with read and write of 3 MiB at a time; prints a sum. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static unsigned char block[3 << 20];

int main(int argc, char **argv)
{
	int from = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	int to = argc == 3 ? open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644)
			   : -1;
	unsigned long sum = 0, all = 0;
	ssize_t n, i;

	if (from < 0 || to < 0)
		return 2;
	while ((n = read(from, block, sizeof(block))) > 0) {
		for (i = 0; i < n; i += 509)
			sum = sum * 31 + block[i];
		if (write(to, block, (size_t)n) != n)
			return 3;
		all += (unsigned long)n;
	}
	printf("%lu bytes sum %lx\n", all, sum);
	return n < 0 || close(to) ? 4 : 0;
}
