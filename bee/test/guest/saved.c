/* SPDX-License-Identifier: MIT */
/*
 * A program for snapshots at any moment: threads that take turns with a mutex
 * and condition variables, vector registers that live across calls, timers with
 * a handler on its own stack, memory, a file that grows, and a pipe. Its answer
 * does not depend on time. usage: saved FILE TURNS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define BLOCKS 64

typedef double four __attribute__((vector_size(32)));

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int turns, next, file, ends[2];
static volatile int done;
static volatile sig_atomic_t ticks;
static unsigned long long sum = 14695981039346656037ull;
static pid_t first_pid;
static __thread int local;

static void report_wrong(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static void mix_value(unsigned long long value)
{
	sum = (sum ^ value) * 1099511628211ull;
}

static long long read_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Overwrites vector registers; on its own stack. */
static void on_tick(int sig)
{
	four x = {(double)sig, 2, 3, 4};
	char here;

	__asm__ volatile("vmovupd %0, %%ymm0\n\tvmovapd %%ymm0, %%ymm9\n\t"
			 "vmovapd %%ymm0, %%ymm15"
			 :
			 : "m"(x)
			 : "xmm0", "xmm9", "xmm15");
	(void)here;
	ticks++;
}

static void set_timers(void)
{
	static char stack[65536];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_handler = on_tick,
			       .sa_flags = SA_RESTART | SA_ONSTACK};
	struct itimerval every = {{0, 3000}, {0, 3000}};
	struct itimerspec other = {{0, 7000000}, {0, 7000000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGUSR1};
	timer_t timer;

	sigaltstack(&alt, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &other, NULL))
		report_wrong("timer_create");
}

/* The state stays in ymm registers for the whole loop. */
__attribute__((target("avx2"), noinline)) static double
spin_vectors(double seed)
{
	double out[4];
	long n = 20000;

	__asm__ volatile("vbroadcastsd %1, %%ymm1\n\t"
			 "vmovapd %%ymm1, %%ymm12\n\t"
			 "1: vmulpd %%ymm12, %%ymm1, %%ymm1\n\t"
			 "vaddpd %%ymm12, %%ymm1, %%ymm1\n\t"
			 "vsqrtpd %%ymm1, %%ymm1\n\t"
			 "dec %2\n\tjnz 1b\n\t"
			 "vmovupd %%ymm1, %0\n\tvzeroupper"
			 : "=m"(out), "+m"(seed), "+r"(n)
			 :
			 : "xmm1", "xmm12", "cc", "memory");
	if (out[0] != out[1] || out[0] != out[3])
		report_wrong("vector registers");
	return out[0];
}

static void append_line(int who, int turn, double value)
{
	char line[96];
	int n = snprintf(line, sizeof(line), "%d %d %.17g\n", turn, who, value);

	if (write(file, line, n) != n || write(ends[1], line, n) != n)
		report_wrong("write");
}

static void *do_work(void *arg)
{
	int who = (int)(long)arg, turn, i;
	unsigned *block[BLOCKS] = {0};
	double value = 1.5 + who;

	local = who + 1000;
	for (turn = who; turn < turns; turn += WORKERS) {
		i = turn * 7 % BLOCKS;
		if (block[i] && block[i][100] != (unsigned)i * 31)
			report_wrong("memory");
		free(block[i]);
		block[i] = malloc(4096 + (turn % 50) * 1000);
		block[i][100] = (unsigned)i * 31;
		value = spin_vectors(value);
		pthread_mutex_lock(&mutex);
		while (next != turn)
			pthread_cond_wait(&moved, &mutex);
		append_line(who, turn, value);
		memcpy(&block[i][200], &value, sizeof(value));
		mix_value((unsigned long long)turn);
		mix_value(*(unsigned long long *)&block[i][200]);
		next++;
		pthread_cond_broadcast(&moved);
		pthread_mutex_unlock(&mutex);
		if (local != who + 1000)
			report_wrong("thread-local memory");
	}
	return NULL;
}

static void *sleep_often(void *arg)
{
	struct timespec ts = {0, 2500000};
	long long before, after;

	(void)arg;
	while (!done) {
		before = read_clock();
		/* a signal may end it: the rest is slept */
		while (nanosleep(&ts, &ts))
			;
		after = read_clock();
		ts.tv_nsec = 2500000;
		if (after - before < 2500000)
			report_wrong("a sleep was too short");
		if (after - before > 20000000000ll)
			report_wrong("monotonic time has jumped");
	}
	return NULL;
}

static void *read_pipe(void *arg)
{
	unsigned long long *hash = arg;
	char part[100];
	ssize_t n, i;

	while ((n = read(ends[0], part, sizeof(part))) > 0)
		for (i = 0; i < n; i++)
			*hash = (*hash ^ (unsigned char)part[i]) *
				1099511628211ull;
	if (n < 0)
		report_wrong("read");
	return NULL;
}

static void check_file(const char *name, off_t size)
{
	if (lseek(file, 0, SEEK_CUR) != size || access(name, F_OK))
		report_wrong("the file's position");
}

int main(int argc, char **argv)
{
	unsigned long long piped = 7;
	pthread_t worker[WORKERS], sleeper, reader;
	long i;

	if (argc != 3)
		return 2;
	turns = atoi(argv[2]);
	first_pid = getpid();
	file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	if (file < 0 || pipe(ends))
		report_wrong("open");
	set_timers();
	pthread_create(&sleeper, NULL, sleep_often, NULL);
	pthread_create(&reader, NULL, read_pipe, &piped);
	for (i = 0; i < WORKERS; i++)
		pthread_create(&worker[i], NULL, do_work, (void *)i);
	for (i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	done = 1;
	close(ends[1]);
	pthread_join(sleeper, NULL);
	pthread_join(reader, NULL);
	check_file(argv[1], lseek(file, 0, SEEK_END));
	if (getpid() != first_pid || !ticks)
		report_wrong("process number, or no timer");
	printf("answer %016llx %016llx\n", sum, piped);
	return 0;
}
