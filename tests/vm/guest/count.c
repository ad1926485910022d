// SPDX-License-Identifier: MIT
/*
 * Runs known numbers of instructions and system calls between marks, for
 * tests/vm/count_test.go, which knows them too. Root starts it: as a
 * real-time task on a processor of its own nobody else's calls fall between.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <skep/mark.h>

/* loops.S */
void plain_loop(void);
void string_copy(void);
void atomic_loop(void);

static inline void make_call(long number)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number)
			 : "rcx", "r11", "memory");
}

/* A mark's number is a part of its instruction, so this is a macro. */
#define CALLS(interval, n, number)                                             \
	do {                                                                   \
		SKEP_MARK_BEGIN(interval);                                     \
		for (int left = (n); left; left--)                             \
			make_call(number);                                     \
		SKEP_MARK_END(interval);                                       \
	} while (0)

static int keep_to_one_processor(void)
{
	struct sched_param first = {.sched_priority = 50};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(1, &one);
	if (sched_setaffinity(0, sizeof(one), &one)) {
		perror("count: processor 1");
		return -1;
	}
	if (sched_setscheduler(0, SCHED_FIFO, &first)) {
		perror("count: real-time scheduling");
		return -1;
	}
	return 0;
}

int main(void)
{
	if (keep_to_one_processor())
		return 1;
	CALLS(0, 0, SYS_getppid);
	CALLS(1, 1, SYS_getppid);
	CALLS(2, 1000, SYS_getppid);
	CALLS(3, 1001, SYS_getpid);
	plain_loop();
	string_copy();
	atomic_loop();

	/* One inside another, and one in two parts. */
	SKEP_MARK_BEGIN(8);
	CALLS(9, 3, SYS_getppid);
	CALLS(9, 4, SYS_getppid);
	SKEP_MARK_END(8);
	return 0;
}
