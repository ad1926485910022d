// SPDX-License-Identifier: MIT
/*
 * Does an idle partition execute instructions? An image begins an interval of
 * the lab's counter and halts, the partition is stopped, is idle for a while,
 * and is started again, where the image ends the interval. What that takes is
 * the same each time; what is more was executed while it was idle: interval 10
 * is idle for no time, 11 through a storm, 12 for no time with a few
 * instructions more, which the counter has to find. CPU 3, as root.
 *
 * usage: lend_idle IMAGE
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define CORE 8 /* CPU 3: a broadcast takes three others */
#define STORM 300

static volatile u64 *rounds;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *spin(void *cpu)
{
	pin((int)(long)cpu);
	for (;;)
		__asm__ volatile("pause");
	return NULL;
}

static void storm(void)
{
	pthread_t other;
	long cpu;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(0);
	for (cpu = 1; cpu < 3; cpu++)
		pthread_create(&other, NULL, spin, (void *)cpu);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
		0);
	for (;; (*rounds)++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static int blew(void *unused)
{
	(void)unused;
	return *rounds > STORM;
}

/* All of it while the partition is idle. */
static int storm_passes(void)
{
	pid_t pid = fork();
	int passed;

	if (!pid)
		storm();
	passed = lend_until(blew, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return passed;
}

static int is_inside(void *slot)
{
	return ((struct slot *)slot)->inside != 0;
}

/* A run of the image whose first command is there before it starts. */
static int run(struct lend *l, int id, const char *image, u64 command)
{
	if (lend_open(l, id) || lend_load(l, image))
		return 0;
	lend_slot(l, 0)->command = command;
	return !lend_start(l) && lend_until(is_inside, lend_slot(l, 0));
}

static int pass(int id, const char *image, u32 number, int (*meanwhile)(void))
{
	struct lend l;
	int ok = run(&l, id, image, SLOT_IDLE + number) && !lend_stop(&l);

	lend_close(&l);
	ok = ok && (!meanwhile || meanwhile());
	ok = ok && run(&l, id, image, SLOT_BACK + number) &&
	     lend_done(lend_slot(&l, 0));
	lend_close(&l);
	return ok;
}

int main(int argc, char **argv)
{
	int id;

	if (argc != 2)
		return 2;
	rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	id = lend_create(CORE, 32 * MIB, "idle");
	tap_ok(id > 0, "idle: a partition");
	tap_ok(pass(id, argv[1], 0, NULL), "idle: for no time");
	tap_ok(pass(id, argv[1], 1, storm_passes), "idle: through a storm");
	tap_ok(pass(id, argv[1], 2, NULL), "idle: with something done");
	tap_ok(!lend_release(id), "idle: released");
	return tap_done();
}
