/* SPDX-License-Identifier: MIT */
/* The break, by its raw call: grow, shrink, grow again reads zero. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static char *set(char *to)
{
	return (char *)syscall(SYS_brk, to);
}

int main(void)
{
	char *start, *p;
	int i, zeros = 0;

	printf("the first line takes what stdio needs\n");
	start = set(NULL);
	CHECK(start != NULL);
	CHECK(set(start + 1000000) == start + 1000000);
	for (i = 0; i < 1000000; i++)
		zeros += start[i] == 0;
	CHECK(zeros == 1000000);
	memset(start, 9, 1000000);
	CHECK(set(start + 10) == start + 10);
	CHECK(start[9] == 9);
	CHECK(set(start + 1000000) == start + 1000000);
	CHECK(start[9] == 9 && start[500000] == 0 && start[999999] == 0);
	p = set(start + (200l << 20));
	CHECK(p == start + (200l << 20));
	p[-1] = 1;
	CHECK(set(start) == start);
	CHECK(set((char *)8) == start);
	CHECK(set((char *)-1l) == start);
	return say_done();
}
