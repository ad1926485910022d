// SPDX-License-Identifier: MIT
/*
 * Partitions come, run and go while Linux does to itself whatever interrupts
 * processors. Runs as root on a machine with CPUs 0 to 3, of which the storms
 * have 0 and 1. Without `hotplug` CPU 1 stays: 6.12's own sched_cpu_dying warns
 * of a CPU that goes under load, whoever takes it.
 *
 * usage: lend_storm IMAGE ROUNDS [hotplug]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define PRESSURE (96 * MIB)

/* How often each storm came round, for all to see. */
static volatile u64 *rounds;
enum { BARRIERS, SHOOTDOWNS, PRESSES, HOTPLUGS, STORMS };
static int storms_now = STORMS;

static void pin_to(unsigned long cpus)
{
	/* A CPU that is away refuses: the storm goes on where it is. */
	syscall(SYS_sched_setaffinity, 0, sizeof(cpus), &cpus);
}

static void pin_process(int cpu)
{
	pin_to(1ul << cpu);
}

static void *spin_thread(void *cpu)
{
	pin_process((long)cpu);
	for (;;)
		__asm__ volatile("pause");
	return NULL;
}

static void storm_barriers(void)
{
	pthread_t other;

	pin_process(0);
	pthread_create(&other, NULL, spin_thread, (void *)1);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
		0);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
	for (;; rounds[BARRIERS]++) {
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	}
}

static void storm_shootdowns(void)
{
	char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t other;

	pthread_create(&other, NULL, spin_thread, (void *)1);
	for (;; rounds[SHOOTDOWNS]++) {
		memset(at, 1, MIB);
		mprotect(at, MIB, PROT_READ);
		mprotect(at, MIB, PROT_READ | PROT_WRITE);
		madvise(at, MIB, MADV_DONTNEED);
	}
}

/* Taking a CPU down stops the machine for a moment. */
static void storm_hotplugs(void)
{
	int fd = open("/sys/devices/system/cpu/cpu1/online", O_WRONLY);

	for (;; rounds[HOTPLUGS]++) {
		while (pwrite(fd, "0", 1, 0) != 1)
			;
		while (pwrite(fd, "1", 1, 0) != 1)
			;
	}
}

static void storm_presses(void)
{
	u64 i;

	for (;; rounds[PRESSES]++) {
		char *at = mmap(NULL, PRESSURE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (i = 0; i < PRESSURE; i += 4096)
			at[i] = 1;
		munmap(at, PRESSURE);
	}
}

static void (*const storms[STORMS])(void) = {storm_barriers, storm_shootdowns,
					     storm_presses, storm_hotplugs};

static void start_storms(pid_t *pids)
{
	int i;

	for (i = 0; i < storms_now; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			storms[i]();
		}
	}
}

static int all_blow(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < storms_now; i++)
		if (!rounds[i])
			return 0;
	return 1;
}

/* 0, or the line of what went wrong. */
static int round_of(const char *image, u64 cpus, int n)
{
	int id = lend_create(cpus, 64 * MIB, ""), line = 0;
	struct lend l;
	u32 seen = 0;

	if (id < 0)
		return __LINE__;
	if (lend_open(&l, id))
		return __LINE__;
	if (lend_load(&l, image) || lend_start(&l) || !lend_alive(&l))
		line = __LINE__;
	if (!line && !lend_command(&l, 0, SLOT_FILL))
		line = __LINE__;
	if (!line)
		lend_slot(&l, 0)->command = SLOT_RING;
	if (!line && lend_wait(&l, &seen, 60000))
		line = __LINE__;
	if (!line && (lend_slot(&l, 0)->interrupts || lend_slot(&l, 0)->nmis))
		line = __LINE__;
	if (!line && n % 2)
		lend_slot(&l, 0)->command = SLOT_SPIN;
	if (!line && lend_stop(&l))
		line = __LINE__;
	lend_close(&l);
	if (lend_release(id) && !line)
		line = __LINE__;
	return line;
}

static int is_interrupted(void *slot)
{
	return ((struct slot *)slot)->interrupts > 0;
}

/* A barrier among three CPUs goes out as a broadcast. */
static void storm_broadcasts(void)
{
	pthread_t other;

	pthread_create(&other, NULL, spin_thread, (void *)2);
	storm_barriers();
}

/* What Linux broadcasts reaches a core that lets interrupts in. */
static void test_broadcast_control(const char *image)
{
	int id = lend_create(8, 64 * MIB, "control");
	struct lend l;
	pid_t pid;

	tap_ok(id > 0 && !lend_open(&l, id) && !lend_load(&l, image) &&
		       !lend_start(&l) && lend_alive(&l) &&
		       lend_command(&l, 0, SLOT_INTERRUPT),
	       "control: boots an image with interrupts on");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		storm_broadcasts();
	}
	tap_ok(lend_until(is_interrupted, lend_slot(&l, 0)),
	       "control: Linux's broadcasts reach it");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	lend_close(&l);
	tap_ok(!lend_release(id), "control: released");
}

static void stop_storms(pid_t *pids)
{
	int i;

	for (i = 0; i < storms_now; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		printf("# storm %d: %llu rounds\n", i, rounds[i]);
	}
}

static int is_online(void *unused)
{
	char text[16] = "";
	int fd = open("/sys/devices/system/cpu/online", O_RDONLY);
	ssize_t n = read(fd, text, 15);

	(void)unused;
	close(fd);
	fd = open("/sys/devices/system/cpu/cpu1/online", O_WRONLY);
	n = write(fd, "1", 1); /* the storm may have left it out */
	close(fd);
	return n == 1 && !strcmp(text, "0-3\n");
}

int main(int argc, char **argv)
{
	pid_t pids[STORMS];
	int i, line = 0;

	if (argc < 3)
		return 2;
	if (argc == 3)
		storms_now = HOTPLUGS;
	pin_to(3);
	rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_storms(pids);
	tap_ok(lend_until(all_blow, NULL), "every storm runs");
	for (i = 0; i < atoi(argv[2]) && !line; i++)
		line = round_of(argv[1], i % 3 ? 8 : 0xc, i);
	if (!tap_ok(!line, "partitions come, run and go in storms"))
		printf("# round %d, line %d: %s\n", i, line, lend_why);
	stop_storms(pids);
	tap_ok(lend_until(is_online, NULL), "all CPUs are there afterwards");
	test_broadcast_control(argv[1]);
	return tap_done();
}
