/* SPDX-License-Identifier: MIT */
/*
 * Processes whose threads start others all the time, by fork and by vfork with
 * execve, until the file `go` exists. Each must end with the exit code that it
 * was given. usage: churn, or churn CODE, or churn late: a child of vfork waits
 * for the file `exec`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "await.h"

#define PROCESSES 3

static const char *self;

static void check_end(pid_t pid, int code)
{
	int status;

	if (pid < 0)
		report_wrong("no new process");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			report_wrong("waitpid");
	if (status != code << 8)
		report_wrong("an exit code");
}

static void *start_forks(void *arg)
{
	struct timespec soon = {0, 3000000};
	int code;
	pid_t pid;

	for (code = 1; access("go", F_OK); code = code % 50 + 1) {
		pid = fork();
		if (!pid) {
			nanosleep(&soon, NULL);
			_exit(code);
		}
		check_end(pid, code);
	}
	return arg;
}

static void start_programs(void)
{
	char text[8];
	int code;
	pid_t pid;

	for (code = 1; access("go", F_OK); code = code % 50 + 1) {
		snprintf(text, sizeof(text), "%d", code);
		pid = vfork();
		if (!pid) {
			execl(self, self, text, NULL);
			_exit(99);
		}
		check_end(pid, code);
	}
}

static int run_both(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, start_forks, NULL))
		report_wrong("pthread_create");
	start_programs();
	return pthread_join(thread, NULL);
}

static void await_name(const char *name)
{
	struct timespec ts = {0, 5000000};
	int i;

	for (i = 0; access(name, F_OK); i++) {
		if (i == 12000)
			report_wrong(name);
		nanosleep(&ts, NULL);
	}
}

static void run_late(void)
{
	pid_t pid = vfork();

	if (!pid) {
		close(creat("waits", 0600));
		await_name("exec");
		execl(self, self, "7", NULL);
		_exit(99);
	}
	check_end(pid, 7);
	_exit(8);
}

static int run_parent(void)
{
	pid_t pid;

	close(creat("begins", 0600));
	await_name("start");
	pid = fork();
	if (!pid)
		run_late();
	await_name("waits");
	await_go();
	check_end(pid, 8);
	puts("unharmed");
	return 0;
}

int main(int argc, char **argv)
{
	pid_t pid[PROCESSES];
	int i;

	self = argv[0];
	if (argc > 1)
		return *argv[1] == 'l' ? run_parent() : atoi(argv[1]);
	for (i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(run_both());
	}
	say_ready();
	run_both();
	for (i = 0; i < PROCESSES; i++)
		check_end(pid[i], 0);
	puts("unharmed");
	return 0;
}
