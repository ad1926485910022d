/* SPDX-License-Identifier: MIT */
/*
 * What a system call costs: prints "operation state ns" lines. `calls OP STATE
 * COUNT` makes COUNT calls of one kind only, for instruction counters. The
 * state is clean (upper halves of vector registers in their first state) or
 * avx (live), which decides how much a gate has to save.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "rounds.h"

static int null_fd, file_fd, live;
static unsigned futex_word;
static char kilobyte[1024];
static struct timespec now;

double clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static inline long raw_syscall6(long nr, long a, long b, long c, long d, long e,
				long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return nr;
}

static inline long raw_syscall3(long nr, long a, long b, long c)
{
	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return nr;
}

/* Sets the state of the upper halves before each call. */
static inline void dirty_upper_halves(void)
{
	if (live)
		__asm__ volatile("vpcmpeqd %%ymm15, %%ymm15, %%ymm15" ::
					 : "xmm15");
}

#define OPERATION(name, expression)                                            \
	static void name(long count)                                           \
	{                                                                      \
		while (count--) {                                              \
			dirty_upper_halves();                                  \
			if ((expression) < 0)                                  \
				exit(3);                                       \
		}                                                              \
		__asm__ volatile("vzeroupper" ::: "memory");                   \
	}

static long map_64k(void)
{
	long p = raw_syscall6(SYS_mmap, 0, 65536, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p < 0)
		return p;
	*(volatile char *)p = 1;
	return raw_syscall3(SYS_munmap, p, 65536, 0);
}

OPERATION(run_getpid, raw_syscall3(SYS_getpid, 0, 0, 0))
OPERATION(run_clock,
	  raw_syscall3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0))
OPERATION(run_null, raw_syscall3(SYS_write, null_fd, (long)kilobyte, 64))
OPERATION(run_write,
	  raw_syscall6(SYS_pwrite64, file_fd, (long)kilobyte, 1024, 0, 0, 0))
OPERATION(run_read,
	  raw_syscall6(SYS_pread64, file_fd, (long)kilobyte, 1024, 0, 0, 0))
OPERATION(run_wake, raw_syscall3(SYS_futex, (long)&futex_word, 129, 1))
OPERATION(run_map, map_64k())

static const struct operation operations[] = {
	{"getpid", run_getpid},	      {"clock_gettime", run_clock},
	{"write_null_64", run_null},  {"write_file_1k", run_write},
	{"read_file_1k", run_read},   {"futex_wake", run_wake},
	{"mmap_munmap_64k", run_map},
};

#define OPERATIONS (int)(sizeof(operations) / sizeof(operations[0]))

int main(int argc, char **argv)
{
	int avx = __builtin_cpu_supports("avx2"), i;

	null_fd = open("/dev/null", O_WRONLY);
	file_fd = open("bench.tmp", O_CREAT | O_RDWR | O_TRUNC, 0600);
	if (null_fd < 0 || file_fd < 0 || !avx)
		return 2;
	if (write(file_fd, kilobyte, sizeof(kilobyte)) != sizeof(kilobyte))
		return 2;
	for (i = 0; i < OPERATIONS; i++) {
		for (live = 0; live < 2; live++) {
			const char *state = live ? "avx" : "clean";

			if (argc < 4)
				printf("%s %s %.2f\n", operations[i].name,
				       state, median_ns(&operations[i]));
			else if (!strcmp(argv[1], operations[i].name) &&
				 !strcmp(argv[2], state))
				operations[i].run(atol(argv[3]));
		}
	}
	unlink("bench.tmp");
	return 0;
}
