/* SPDX-License-Identifier: MIT */
/*
 * A thread on each processor calls the updated function again and again, and
 * counts which version answered.
 */
#ifndef TESTS_VM_GUEST_DYNAMOS_ENGINE_H
#define TESTS_VM_GUEST_DYNAMOS_ENGINE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <skep/types.h>

#define CPUS 4

static inline long get_answer(void)
{
	return syscall(SYS_getpgid, 0);
}

/* Four threads that call and look at each answer. Taking text out of use waits
 * until each task was seen in user mode, or gave its processor away: now and
 * then they do, because an emulator's clock may never tick in user mode. */
static struct {
	pthread_t thread;
	u64 calls, newer, wrong;
} hammers[CPUS];
static int striking;
static u64 strikes; /* of each; 0: until told to stop */
static long expected;

static inline void *run_hammer(void *arg)
{
	u32 i = (u64)arg;
	cpu_set_t set;
	long got;

	CPU_ZERO(&set);
	CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (__atomic_load_n(&striking, __ATOMIC_RELAXED)) {
		got = get_answer();
		hammers[i].newer += got == 4242;
		hammers[i].wrong += got != 4242 && got != expected;
		if (++hammers[i].calls == strikes)
			break;
		if (hammers[i].calls % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static inline void start_hammers(u64 each)
{
	u64 i;

	expected = get_answer();
	memset(hammers, 0, sizeof(hammers));
	strikes = each;
	striking = 1;
	for (i = 0; i < CPUS; i++)
		pthread_create(&hammers[i].thread, NULL, run_hammer, (void *)i);
}

static inline void join_hammers(u64 *all_calls, u64 *newer, u64 *wrong)
{
	u32 i;

	*all_calls = *newer = *wrong = 0;
	for (i = 0; i < CPUS; i++) {
		pthread_join(hammers[i].thread, NULL);
		*all_calls += hammers[i].calls;
		*newer += hammers[i].newer;
		*wrong += hammers[i].wrong;
	}
}

static inline void stop_hammers(u64 *all_calls, u64 *newer, u64 *wrong)
{
	__atomic_store_n(&striking, 0, __ATOMIC_RELAXED);
	join_hammers(all_calls, newer, wrong);
}

#endif
