/* SPDX-License-Identifier: MIT */
/* For programs that are saved: they wait until the file `go` exists. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void report_wrong(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static long long read_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Who sees the file finds no descriptor of it in this process. */
static void say_ready(void)
{
	close(creat("begun", 0600));
	if (rename("begun", "ready"))
		report_wrong("the file that says it cannot be made");
}

/* The longest time between two looks, in ns. */
static long long await_go(void)
{
	struct timespec ts = {0, 10000000};
	long long last, time, longest = 0;
	int i;

	say_ready();
	last = read_clock();
	for (i = 0; access("go", F_OK); i++) {
		if (i == 12000)
			report_wrong("nobody said go");
		nanosleep(&ts, NULL);
		time = read_clock();
		longest = time - last > longest ? time - last : longest;
		last = time;
	}
	time = read_clock();
	return time - last > longest ? time - last : longest;
}
