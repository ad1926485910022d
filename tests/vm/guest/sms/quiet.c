// SPDX-License-Identifier: MIT
/*
 * Intervals that the lab's counter adds up, for tests/vm/sms_test.go: 0 a loop
 * over 64 MiB that were touched before, 1 a thousand system calls, 2 barriers
 * of libgomp in a team that exists, 3 the same barriers made of two counters,
 * 4 readings of clocks. A thread that waits for input is beside the team.
 */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <skep/mark.h>

#define BYTES (64ul << 20)
#define BARRIERS 200

static unsigned long sum_passes(const unsigned char *at, int passes)
{
	unsigned long sum = 0, i;

	SKEP_MARK_BEGIN(0);
	for (; passes; passes--)
		for (i = 0; i < BYTES; i += 64)
			sum += *(volatile const unsigned long *)(at + i);
	SKEP_MARK_END(0);
	return sum;
}

static void make_calls(int n)
{
	SKEP_MARK_BEGIN(1);
	for (; n; n--)
		syscall(SYS_getppid);
	SKEP_MARK_END(1);
}

/* Neither of both is a system call. */
static void read_clocks(int n)
{
	struct timespec ts;

	SKEP_MARK_BEGIN(4);
	for (; n; n--) {
		clock_gettime(CLOCK_REALTIME, &ts);
		omp_get_wtime();
	}
	SKEP_MARK_END(4);
}

static unsigned arrived, generation;

/* The last one lets all go; nobody asks the kernel. */
static void meet_threads(unsigned all)
{
	unsigned now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == all) {
		arrived = 0;
		__atomic_store_n(&generation, now + 1, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) == now)
		__builtin_ia32_pause();
}

static void run_barriers(void)
{
	int i;

	/* The first one makes the team, the next ones touch what they need. */
#pragma omp parallel private(i)
	{
		for (i = 0; i < 20; i++) {
#pragma omp barrier
		}
		SKEP_MARK_BEGIN(2);
		for (i = 0; i < BARRIERS; i++) {
#pragma omp barrier
		}
		SKEP_MARK_END(2);
		meet_threads(omp_get_num_threads());
		SKEP_MARK_BEGIN(3);
		for (i = 0; i < BARRIERS; i++)
			meet_threads(omp_get_num_threads());
		SKEP_MARK_END(3);
	}
}

/* One thread more than cores, but none that could run. */
static void *wait_for_input(void *arg)
{
	char c;

	return read(0, &c, 1) == 1 ? arg : NULL;
}

int main(int argc, char **argv)
{
	unsigned char *at = malloc(BYTES);
	pthread_t helper;

	if (!at)
		return 1;
	memset(at, 1, BYTES);
	if (argc > 1 && !strcmp(argv[1], "linux")) { /* once is enough there */
		printf("sum %lx\n", sum_passes(at, 1));
		return 0;
	}
	printf("sum %lx\n", sum_passes(at, 3));
	make_calls(1000);
	read_clocks(1000);
	if (pthread_create(&helper, NULL, wait_for_input, NULL))
		return 1;
	run_barriers();
	puts("done");
	return 0;
}
