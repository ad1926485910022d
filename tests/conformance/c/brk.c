/* SPDX-License-Identifier: MIT */
/* The break, by its raw call: grow, shrink, grow again reads zero. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static char *set_brk(char *to)
{
	return (char *)syscall(SYS_brk, to);
}

int main(void)
{
	char *start, *p;
	int i, zeros = 0;

	printf("the first line takes what stdio needs\n");
	start = set_brk(NULL);
	CHECK(start != NULL);
	CHECK(set_brk(start + 1000000) == start + 1000000);
	for (i = 0; i < 1000000; i++)
		zeros += start[i] == 0;
	CHECK(zeros == 1000000);
	memset(start, 9, 1000000);
	CHECK(set_brk(start + 10) == start + 10);
	CHECK(start[9] == 9);
	CHECK(set_brk(start + 1000000) == start + 1000000);
	CHECK(start[9] == 9 && start[500000] == 0 && start[999999] == 0);
	p = set_brk(start + (200l << 20));
	CHECK(p == start + (200l << 20));
	p[-1] = 1;
	CHECK(set_brk(start) == start);
	CHECK(set_brk((char *)8) == start);
	CHECK(set_brk((char *)-1l) == start);
	return say_done();
}
