// SPDX-License-Identifier: MIT
/*
 * The counter's control: an image that lets interrupts in is disturbed by what
 * Linux broadcasts, and the same image with interrupts off is not, by the same
 * storm. The image's marks (../image/slot.h) are for the lab to read. Runs as
 * root on a machine with CPUs 0 to 3, all Linux's.
 *
 * usage: lend_noise IMAGE
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define CORE 8 /* CPU 3: a broadcast takes three others */

static volatile u64 *rounds;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

static void *spin(void *cpu)
{
	pin((long)cpu);
	for (;;)
		__asm__ volatile("pause");
	return NULL;
}

/* A barrier among threads on three CPUs goes out to all. */
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

static int blows(void *from)
{
	return *rounds > *(u64 *)from + 10;
}

static int is_inside(void *slot)
{
	return ((struct slot *)slot)->inside != 0;
}

int main(int argc, char **argv)
{
	struct slot *s;
	struct lend l;
	u64 before = 0;
	pid_t pid;
	int id;

	if (argc != 2)
		return 2;
	rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	id = lend_create(CORE, 32 * MIB, "noise");
	if (!tap_ok(id > 0 && !lend_open(&l, id) && !lend_load(&l, argv[1]) &&
			    !lend_start(&l) && lend_alive(&l),
		    "noise: an image runs"))
		return tap_done();
	s = lend_slot(&l, 0);
	pid = fork();
	if (!pid)
		storm();
	tap_ok(lend_until(blows, &before), "noise: a storm blows");
	s->command = SLOT_QUIET;
	lend_until(is_inside, s);
	before = *rounds;
	tap_ok(s->inside && lend_until(blows, &before),
	       "noise: it blows around a loop with interrupts off");
	s->leave = 1;
	tap_ok(lend_done(s) && !s->interrupts, "noise: which takes none");
	tap_ok(lend_command(&l, 0, SLOT_NOISY) && s->interrupts,
	       "noise: a loop with interrupts on");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	lend_close(&l);
	tap_ok(!lend_release(id), "noise: released");
	return tap_done();
}
