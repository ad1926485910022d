/* SPDX-License-Identifier: MIT */
/* Functions that are chosen when they are bound, by what the CPU can do. */
int part_choice(int n);
typedef int choice(int n);
choice *part_pointer(void);

#ifdef PART
static int choose_one(int n)
{
	return n + 1;
}

static int choose_two(int n)
{
	return n + 2;
}

static choice *resolve_choice(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse2") ? choose_two : choose_one;
}

int part_choice(int n) __attribute__((ifunc("resolve_choice")));

choice *part_pointer(void)
{
	return part_choice;
}
#else
#include <string.h>
#include "../c/say.h"

static int local_plain(int n)
{
	return n * 3;
}

static choice *resolve_local(void)
{
	return local_plain;
}

static int local_choice(int n) __attribute__((ifunc("resolve_local")));
static choice *volatile pointer = local_choice;

int main(void)
{
	char from[200], to[200];

	CHECK(part_choice(40) == 42);
	CHECK(part_pointer()(1) == 3);
	CHECK(local_choice(5) == 15 && pointer(6) == 18);
	memset(from, 'a', sizeof(from));
	memcpy(to, from, sizeof(to)); /* the C library's own choice */
	CHECK(!memcmp(from, to, sizeof(to)) && !memchr(to, 'b', sizeof(to)));
	return say_done();
}
#endif
