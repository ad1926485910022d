/* SPDX-License-Identifier: MIT */
/*
 * Processes: fork, exit and wait, alone and with memory that the child shares
 * until it writes, or gets as a copy; vfork and execve of this program. Prints
 * "name ns" lines.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT 200
#define LIMIT_NS 3e9 /* of one operation, where processes are slow */
#define LARGE (64 << 20)

static const char *self;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Ends the program: a failure would look like speed. */
static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		exit_failed("a child");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		fprintf(stderr, "a child's status: 0x%x\n", status);
		exit(1);
	}
}

static void fork_once(void)
{
	pid_t child = fork();

	if (!child)
		_exit(7);
	wait_for(child);
}

static void exec_once(void)
{
	pid_t child = vfork();

	if (!child) {
		execl(self, self, "7", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

static void measure_operation(const char *name, void (*once)(void), int count)
{
	double begin, spent = 0;
	int i;

	once(); /* warm */
	begin = now_ns();
	for (i = 0; i < count && spent < LIMIT_NS; i++) {
		once();
		spent = now_ns() - begin;
	}
	printf("%s %.0f\n", name, spent / i);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char *memory;

	if (argc > 1)
		return atoi(argv[1]);
	self = argv[0];
	measure_operation("fork_wait", fork_once, COUNT);
	memory = malloc(LARGE);
	if (!memory)
		exit_failed("malloc");
	memset(memory, 1, LARGE);
	measure_operation("fork_wait_64M", fork_once, COUNT / 10);
	free(memory);
	measure_operation("vfork_exec_wait", exec_once, COUNT / 4);
	return 0;
}
