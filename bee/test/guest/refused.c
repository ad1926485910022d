/* SPDX-License-Identifier: MIT */
/* Asks twice for what bee refuses; 0 when each answer has its errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bad;

static void expect_error(const char *what, long result, int error)
{
	if (result != -1 || errno != error) {
		printf("%s: %ld, errno %d\n", what, result, errno);
		bad = 1;
	}
}

int main(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		expect_error("ptrace",
			     syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0),
			     ENOSYS);
		expect_error("memfd_secret", syscall(447, 0), ENOSYS);
		expect_error("fanotify", syscall(SYS_fanotify_init, 0, 0),
			     ENOSYS);
		expect_error("rseq", syscall(SYS_rseq, 0, 0, 0, 0), ENOSYS);
		expect_error("number", syscall(4321), ENOSYS);
		expect_error("memory",
			     (long)mmap(NULL, 1ul << 36, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			     ENOMEM);
		expect_error(
			"addresses",
			(long)mmap(NULL, 1ul << 39, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				   -1, 0),
			ENOMEM);
		expect_error(
			"huge",
			(long)mmap(NULL, 1ul << 21, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
				   -1, 0),
			ENOMEM);
	}
	return bad;
}
