/* SPDX-License-Identifier: MIT */
/*
 * Acts as the owner of a PC for some seconds: a task of 2 ms in each 16 ms, as
 * a video has, and every 50 ms a key whose echo comes back over a terminal. A
 * period is missed if its work is not done when the next one begins. Prints
 * "name value" lines, times in ns. usage: owner SECONDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 16000000L
#define WORK_NS 2000000L
#define KEY_NS 50000000L
#define SECOND_NS 1000000000L
#define KEYS_MAX 100000L

static long seconds;
static volatile unsigned long work_sum;

/* Ends the program: a failure would look like speed. */
static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static long clock_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * SECOND_NS + t.tv_nsec;
}

static void wait_until(long at)
{
	struct timespec t = {at / SECOND_NS, at % SECOND_NS};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Uses this thread's processor for WORK_NS, however long that takes. */
static void do_work(void)
{
	long end = clock_read(CLOCK_THREAD_CPUTIME_ID) + WORK_NS;

	while (clock_read(CLOCK_THREAD_CPUTIME_ID) < end)
		work_sum++;
}

static int by_value(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

static void print_spread(const char *name, long *list, long n)
{
	qsort(list, n, sizeof(*list), by_value);
	printf("%s_median %ld\n%s_99 %ld\n", name, list[n / 2], name,
	       list[n * 99 / 100]);
}

static void *play_video(void *unused)
{
	long n = seconds * SECOND_NS / PERIOD_NS, missed = 0, i;
	long begin = clock_read(CLOCK_MONOTONIC) + PERIOD_NS;
	long *took = calloc(n, sizeof(*took));

	(void)unused;
	if (!took)
		exit_failed("calloc");
	for (i = 0; i < n; i++) {
		wait_until(begin + i * PERIOD_NS);
		do_work();
		took[i] = clock_read(CLOCK_MONOTONIC) - begin - i * PERIOD_NS;
		missed += took[i] > PERIOD_NS;
	}
	print_spread("frame", took, n);
	printf("frames %ld\nmissed %ld\n", n, missed);
	free(took);
	return NULL;
}

/* The program below the terminal returns each key, as an editor does. */
static void echo_keys(int terminal)
{
	char key;

	while (read(terminal, &key, 1) == 1)
		if (write(terminal, &key, 1) != 1)
			break;
	_exit(0);
}

static void type_keys(int keyboard)
{
	long n = seconds * SECOND_NS / KEY_NS, i;
	long begin = clock_read(CLOCK_MONOTONIC) + KEY_NS;
	long *took = calloc(n, sizeof(*took));
	char key = 'k';

	if (!took)
		exit_failed("calloc");
	for (i = 0; i < n; i++) {
		wait_until(begin + i * KEY_NS);
		took[i] = clock_read(CLOCK_MONOTONIC);
		if (write(keyboard, &key, 1) != 1 ||
		    read(keyboard, &key, 1) != 1)
			exit_failed("terminal");
		took[i] = clock_read(CLOCK_MONOTONIC) - took[i];
	}
	print_spread("echo", took, n);
	free(took);
}

int main(int argc, char **argv)
{
	struct termios raw;
	int keyboard, terminal;
	pthread_t video;

	seconds = argc == 2 ? atol(argv[1]) : 0;
	if (seconds < 1 || seconds > KEYS_MAX) {
		fprintf(stderr, "usage: owner SECONDS\n");
		return 2;
	}
	cfmakeraw(&raw);
	if (openpty(&keyboard, &terminal, NULL, &raw, NULL))
		exit_failed("openpty");
	switch (fork()) {
	case -1:
		exit_failed("fork");
		break;
	case 0:
		close(keyboard);
		echo_keys(terminal);
	}
	close(terminal);
	if (pthread_create(&video, NULL, play_video, NULL))
		exit_failed("pthread_create");
	type_keys(keyboard);
	pthread_join(video, NULL);
	return 0;
}
