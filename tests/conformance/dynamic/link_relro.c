/* SPDX-License-Identifier: MIT */
/* What the loader has relocated in a library is read-only afterwards; the rest
 * of its data is not, and each process has its own. */
extern int part_number;
extern const char *part_text;
extern const char *const part_table[3];
int part_add(int n);

#ifdef PART
int part_number = 5;
const char *part_text = "text";
const char *const part_table[3] = {"one", "two", "three"};

int part_add(int n)
{
	return part_number += n;
}
#else
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include "../c/say.h"

static sigjmp_buf out;
static void *where;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	where = info->si_addr;
	siglongjmp(out, 1);
}

static int is_read_only(const void *p)
{
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &sa, NULL);
	if (sigsetjmp(out, 1))
		return where == p;
	*(volatile char *)p = 0;
	return 0;
}

int main(void)
{
	CHECK(part_add(2) == 7 && part_number == 7);
	part_number = 30;
	CHECK(part_add(1) == 31);
	part_text = "mine";
	CHECK(!strcmp(part_text, "mine"));
	CHECK(!strcmp(part_table[0], "one") && !strcmp(part_table[2], "three"));
	CHECK(is_read_only(&part_table[1]));
	CHECK(is_read_only((const void *)part_add));
	CHECK(part_add(1) == 32);
	return say_done();
}
#endif
