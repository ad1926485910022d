/* SPDX-License-Identifier: MIT */
/* Threads, thread-local storage, signals at known and at any places. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define TURNS 20000
#define KICKS 200

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int local = 5;
static long total;
static volatile sig_atomic_t last, kicks;
static sigjmp_buf back;

static void *count_turns(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&mutex);
		total++;
		local++;
		pthread_mutex_unlock(&mutex);
	}
	errno = (int)(long)arg;
	return (void *)(long)(local + errno);
}

static void on_signal(int sig)
{
	last = sig;
}

static void on_kick(int sig)
{
	(void)sig;
	kicks++;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	printf("fault: code %d, address %p\n", info->si_code, info->si_addr);
	siglongjmp(back, 1);
}

/* Thread-local and floating-point work that a kick must not disturb. */
static void *spin_thread(void *arg)
{
	double x = 1;
	long bad = 0, i;

	(void)arg;
	while (kicks < KICKS) {
		for (i = 0; i < 1000; i++) {
			x = x * 0.5 + 0.5;
			errno = (int)i;
			local = (int)i;
			bad += errno != (int)i || local != (int)i || x != 1;
		}
	}
	return (void *)bad;
}

static void run_threads(void)
{
	pthread_t id[4];
	long sum = 0, i;
	void *result;

	for (i = 0; i < 4; i++)
		pthread_create(&id[i], NULL, count_turns, (void *)i);
	for (i = 0; i < 4; i++) {
		pthread_join(id[i], &result);
		sum += (long)result;
	}
	printf("threads: total %ld, sum %ld, own %d\n", total, sum, local);
}

static void run_kicks(void)
{
	int before = 0;
	pthread_t id;
	void *bad;

	signal(SIGUSR1, on_kick);
	pthread_create(&id, NULL, spin_thread, NULL);
	while (kicks < KICKS) {
		before = kicks;
		pthread_kill(id, SIGUSR1);
		while (kicks == before)
			usleep(50);
	}
	pthread_join(id, &bad);
	printf("kicks: %s, %ld wrong\n", kicks >= KICKS ? "all" : "few",
	       (long)bad);
}

static void run_faults(void)
{
	struct sigaction sa = {.sa_flags = SA_SIGINFO};

	sa.sa_sigaction = on_fault;
	sigaction(SIGSEGV, &sa, NULL);
	if (!sigsetjmp(back, 1))
		*(volatile int *)16 = 1;
	if (!sigsetjmp(back, 1))
		*(volatile int *)0x200000 = 1;
}

/* What follows uses the same threads. */
static void run_processors(void)
{
	int yielded = sched_yield(), got, set;
	cpu_set_t mask;

	got = sched_getaffinity(0, sizeof(mask), &mask);
	set = sched_setaffinity(0, sizeof(mask), &mask);
	printf("processors: %d, %d, %d\n", yielded, got, set);
}

int main(void)
{
	run_processors();
	run_threads();
	signal(SIGUSR2, on_signal);
	raise(SIGUSR2);
	printf("raise: %d\n", (int)(last == SIGUSR2));
	run_kicks();
	run_faults();
	signal(SIGALRM, on_signal);
	ualarm(20000, 0);
	pause();
	printf("alarm: %d\n", (int)(last == SIGALRM));
	return 3;
}
