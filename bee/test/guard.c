/* SPDX-License-Identifier: MIT */
/* Runs behind bee-guard: makes a system call from each end of guest memory. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skep/guest.h>
#include <skep/types.h>

#include "tests/tap.h"

#define PAGE SKEP_PAGE_SIZE

/* Where the instruction ends: Linux passes the guard that address. */
static const struct {
	u64 end;
	int dies;
	const char *name;
} place[] = {
	{SKEP_IMAGE_START - 16, 0, "before an image"},
	{SKEP_IMAGE_START + 2, 1, "the first address of an image"},
	{SKEP_IMAGE_END, 1, "the last address of an image"},
	{SKEP_IMAGE_END + 2, 0, "behind an image"},
	{SKEP_ARENA_START - 16, 0, "before the arena"},
	{SKEP_ARENA_START + 2, 1, "the first address of the arena"},
	{SKEP_MMAP_START + 0x123456, 1, "inside the arena"},
	{SKEP_ARENA_END, 1, "the last address of the arena"},
	{SKEP_ARENA_END + 2, 0, "behind the arena"},
};

/* syscall; ret, over two pages where it must be. */
static void call_from(u64 end)
{
	static const u8 code[] = {0x0f, 0x05, 0xc3};
	u64 first = (end - 2) & ~(u64)(PAGE - 1);
	long result = 39; /* getpid */

	if (mmap((void *)first, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != (void *)first)
		_exit(1);
	memcpy((void *)(end - 2), code, sizeof(code));
	__asm__ volatile("call *%1"
			 : "+a"(result)
			 : "r"(end - 2)
			 : "rcx", "r11", "memory");
	_exit(result == getpid() ? 0 : 2);
}

int main(void)
{
	u32 i;

	for (i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
		pid_t child = fork();
		int status = -1;

		if (!child)
			call_from(place[i].end);
		waitpid(child, &status, 0);
		tap_ok(place[i].dies ? WIFSIGNALED(status) &&
					       WTERMSIG(status) == SIGSYS
				     : status == 0,
		       "a call from %s %s", place[i].name,
		       place[i].dies ? "dies" : "is Linux's affair");
	}
	return tap_done();
}
