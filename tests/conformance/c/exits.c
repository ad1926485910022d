/* SPDX-License-Identifier: MIT */
/* The ways to end: its argument says which. The runner compares exit codes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "say.h"

static void print_farewell(void)
{
	printf("atexit ran\n");
}

static void *exit_process(void *arg)
{
	usleep(10000);
	exit(*(int *)arg);
}

static void *exit_late(void *arg)
{
	usleep(30000);
	printf("the last thread ends\n");
	return arg;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "code";
	int number = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t thread;

	atexit(print_farewell);
	printf("before %s %d\n", way, number);
	if (!strcmp(way, "code"))
		return number;
	if (!strcmp(way, "quick"))
		_exit(number);
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "signal"))
		kill(getpid(), number);
	if (!strcmp(way, "segv"))
		*(volatile int *)(long)(number + 64) = 1;
	if (!strcmp(way, "trap"))
		__builtin_trap();
	pthread_create(&thread, NULL,
		       !strcmp(way, "last") ? exit_late : exit_process,
		       &number);
	if (!strcmp(way, "last"))
		pthread_exit(NULL);
	pause();
	for (;;)
		pause();
}
