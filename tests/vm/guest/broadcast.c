// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broadcast.h"
#include "lend.h"

static volatile u64 *rounds;
static pid_t sender;

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

static void *spin_on(void *cpu)
{
	pin_to((int)(long)cpu);
	for (;;)
		__asm__ volatile("pause");
	return NULL;
}

__attribute__((noreturn)) static void send_barriers(void)
{
	pthread_t other;
	long cpu;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to(0);
	for (cpu = 1; cpu < 3; cpu++)
		pthread_create(&other, NULL, spin_on, (void *)cpu);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
		0);
	for (;; (*rounds)++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

int broadcast_begin(void)
{
	if (!rounds)
		rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds == MAP_FAILED)
		return -errno;
	sender = fork();
	if (!sender)
		send_barriers();
	return sender < 0 ? -errno : 0;
}

static int has_passed(void *until)
{
	return *rounds > *(u64 *)until;
}

int broadcast_goes_on(u64 more)
{
	u64 until = *rounds + more;

	return lend_until(has_passed, &until);
}

void broadcast_end(void)
{
	if (sender <= 0)
		return;
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	sender = 0;
}
