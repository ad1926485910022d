// SPDX-License-Identifier: MIT
/*
 * More threads than cores: each word prints what must be the same wherever it
 * runs, and hangs where threads that could run get no turn.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <skep/types.h>

#define ROUNDS 20
#define BURSTS 300
#define BURST 8

static volatile int turn, users;
static double area;

static void print_line(const char *text)
{
	puts(text);
	fflush(stdout);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* No call in the loop: somebody must take the core away. */
static void *alternate_thread(void *arg)
{
	int self = arg != NULL, i;

	stay_on(0);
	for (i = 0; i < ROUNDS; i++) {
		while (turn % 2 != self)
			;
		turn++;
	}
	return NULL;
}

/* Two threads on one core that hand a word over and back. */
static int run_pair(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, alternate_thread, &area))
		return 1;
	alternate_thread(NULL);
	pthread_join(t, NULL);
	printf("handed over %d\n", turn);
	return 0;
}

/* Floating point that is lost if a switch does not keep it. */
static void *integrate_thread(void *arg)
{
	double sum = 0, x;
	long i, n = 300000, part = (long)arg;

	for (i = 0; i < n; i++) {
		x = ((double)(i * 4 + part) + 0.5) / (4.0 * (double)n);
		sum += 4 / (1 + x * x) / (4.0 * (double)n);
	}
	return memcpy(malloc(sizeof(sum)), &sum, sizeof(sum));
}

static int run_compute(void)
{
	pthread_t t[4];
	double *part;
	long i;

	for (i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, integrate_thread, (void *)i))
			return 1;
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], (void **)&part);
		area += *part;
	}
	printf("area %.6f\n", area);
	return 0;
}

static void *wait_for_end(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_mutex_unlock(arg);
	return NULL;
}

static int run_many(int threads)
{
	pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
	pthread_t *t = calloc((size_t)threads, sizeof(*t));
	pthread_attr_t small;
	int n, err = 0, i;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_mutex_lock(&hold);
	for (n = 0; t && n < threads && !err; n += !err)
		err = pthread_create(&t[n], &small, wait_for_end, &hold);
	pthread_mutex_unlock(&hold);
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("threads %d %s\n", n, strerror(err));
	return 0;
}

static void *end_soon(void *arg)
{
	__atomic_add_fetch(&turn, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* Threads that come faster than a core wakes: each wants it woken, while the
 * core where they come from is sliced.
 */
static int run_bursts(void)
{
	pthread_t t[BURST];
	int round, i;

	for (round = 0; round < BURSTS; round++) {
		for (i = 0; i < BURST; i++)
			if (pthread_create(&t[i], NULL, end_soon, NULL))
				return 1;
		for (i = 0; i < BURST; i++)
			pthread_join(t[i], NULL);
	}
	printf("came %d\n", turn);
	return 0;
}

static void *read_lines(void *arg)
{
	char c;

	while (read(0, &c, 1) == 1)
		if (c != '\n')
			printf("read %c\n", c), fflush(stdout);
	return arg;
}

/* Its call is beside that of the reader, on whichever core they are. */
static void *sleep_and_poll(void *arg)
{
	struct timespec while_ago = {0, 20000000};
	int pipes[2], i;
	struct pollfd one;

	if (pipe(pipes))
		return NULL;
	one = (struct pollfd){.fd = 0, .events = POLLPRI};
	for (i = 0; i < 3; i++) {
		nanosleep(&while_ago, NULL);
		poll(&one, 1, 20);
	}
	return arg;
}

/* Helpers beside a team that has all cores. */
static int run_helpers(void)
{
	pthread_t reader, poller;
	long sum = 0, i;
	void *slept;

	if (pthread_create(&reader, NULL, read_lines, NULL) ||
	    pthread_create(&poller, NULL, sleep_and_poll, &sum))
		return 1;
#pragma omp parallel for reduction(+ : sum)
	for (i = 0; i < 1000000; i++)
		sum += i % 7;
	pthread_join(poller, &slept);
	printf("team %ld %d\n", sum, slept == &sum);
	fflush(stdout);
	pthread_join(reader, NULL);
	return 0;
}

static void on_user(int sig)
{
	(void)sig;
	users++;
}

static void *spin_thread(void *arg)
{
	while (!users)
		;
	return arg;
}

/* All cores spin and more; a signal still gets to a handler. */
static int run_signal(void)
{
	struct sigaction sa = {.sa_handler = on_user};
	pthread_t t[5];
	int i;

	sigaction(SIGUSR1, &sa, NULL);
	for (i = 0; i < 5; i++)
		if (pthread_create(&t[i], NULL, spin_thread, NULL))
			return 1;
	print_line("spins");
	for (i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	print_line("heard");
	return 0;
}

/* Threads that give way until all have come, as run-times do. */
static void *give_way(void *arg)
{
	__atomic_add_fetch(&turn, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) < 5)
		sched_yield();
	return arg;
}

static int run_yield(void)
{
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, give_way, NULL))
			return 1;
	give_way(NULL);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("came %d\n", turn);
	return 0;
}

/* On the first core, whose number as the processor has it is said. */
static int wait_for_input(void)
{
	u32 a = 1, b, c = 0, d;
	char byte;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	printf("processor %u\n", b >> 24);
	fflush(stdout);
	printf("read %d\n", (int)read(0, &byte, 1));
	return 0;
}

/* What OMP_PLACES=cores makes of the processors. */
static int print_places(void)
{
	printf("places %d of %d\n", omp_get_num_places(),
	       omp_get_num_places() ? omp_get_place_num_procs(0) : 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "pair"))
		return run_pair();
	if (!strcmp(how, "compute"))
		return run_compute();
	if (!strcmp(how, "many") && argc > 2)
		return run_many(atoi(argv[2]));
	if (!strcmp(how, "helpers"))
		return run_helpers();
	if (!strcmp(how, "deaf"))
		return run_signal();
	if (!strcmp(how, "places"))
		return print_places();
	if (!strcmp(how, "wait"))
		return wait_for_input();
	if (!strcmp(how, "bursts"))
		return run_bursts();
	if (!strcmp(how, "yield"))
		return run_yield();
	return 2;
}
