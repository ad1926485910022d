/* SPDX-License-Identifier: MIT */
/*
 * Code made at run time: harmless code runs; code with a system call of its
 * own, and memory both writable and executable, work natively and may be
 * refused by a loader that cannot rewrite them. Never does it escape.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "say.h"

/* mov $42, %eax; ret */
static const unsigned char harmless[] = {0xb8, 42, 0, 0, 0, 0xc3};
/* mov $39, %eax; syscall; ret */
static const unsigned char calling[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};

static void *place_code(const unsigned char *code, size_t size, int *error)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(p, code, size);
	*error = mprotect(p, 4096, PROT_READ | PROT_EXEC) ? errno : 0;
	return p;
}

int main(void)
{
	int error, (*function)(void);
	void *p;

	function =
		(int (*)(void))place_code(harmless, sizeof(harmless), &error);
	CHECK(error == 0);
	CHECK(!error && function() == 42);
	CHECK(mprotect((void *)function, 4096, PROT_READ | PROT_WRITE) == 0);
	((char *)function)[1] = 43;
	CHECK(mprotect((void *)function, 4096, PROT_READ | PROT_EXEC) == 0);
	CHECK(function() == 43);
	function = (int (*)(void))place_code(calling, sizeof(calling), &error);
	CHECK(error ? error == EACCES : function() == getpid());
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED || errno == EACCES);
	return say_done();
}
