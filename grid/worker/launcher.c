// SPDX-License-Identifier: MIT
/*
 * Owns the launcher of the job and its last lines. All belongs to the main
 * thread, but `tail`, which `lock` guards: the thread that passes on what
 * launcher and ranks print writes it.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAIL 0x400
#define END_TRIES 10000 /* milliseconds */

static pid_t launcher; /* 0: there is none */
static int children = -1, output = -1;
static pthread_t printer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char tail[TAIL + 1];
static size_t tail_length;

/* What launcher and ranks print -------------------------------------------- */

static void keep_tail(const char *text, size_t n)
{
	size_t drop;

	pthread_mutex_lock(&lock);
	if (n > TAIL) {
		text += n - TAIL;
		n = TAIL;
	}
	drop = tail_length + n > TAIL ? tail_length + n - TAIL : 0;
	memmove(tail, tail + drop, tail_length - drop);
	tail_length -= drop;
	memcpy(tail + tail_length, text, n);
	tail_length += n;
	tail[tail_length] = 0;
	pthread_mutex_unlock(&lock);
}

static void *print_output(void *none)
{
	char text[0x1000];
	ssize_t n, done, at;

	for (;;) {
		n = read(output, text, sizeof(text));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return none;
		keep_tail(text, (size_t)n);
		for (at = 0; at < n; at += done) {
			done = write(2, text + at, (size_t)(n - at));
			if (done <= 0)
				break;
		}
	}
}

const char *launcher_last_line(void)
{
	char *end = tail + tail_length, *line;

	while (end > tail && (end[-1] == '\n' || end[-1] == ' '))
		*--end = 0;
	line = strrchr(tail, '\n');
	return line ? line + 1 : tail;
}

/* Ending ------------------------------------------------------------------- */

int launcher_reap(void)
{
	struct signalfd_siginfo info;
	pid_t pid;

	while (read(children, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid == launcher)
			launcher = 0;
	}
	return !launcher;
}

static u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000 + (u64)t.tv_nsec / 1000000;
}

void launcher_await(u64 ms)
{
	u64 now = now_ms(), until = now + ms;
	struct pollfd p = {children, POLLIN, 0};

	for (; !launcher_reap() && now < until; now = now_ms())
		poll(&p, 1, (int)(until - now));
}

/* This process adopts what its descendants leave behind. */
static int kill_children(void)
{
	FILE *list = fopen("/proc/thread-self/children", "re");
	int found = 0, pid;

	while (list && fscanf(list, "%d", &pid) == 1) {
		found = 1;
		kill(pid, SIGKILL);
	}
	if (list)
		fclose(list);
	return found;
}

void launcher_end(u64 ms)
{
	const struct timespec pause = {0, 1000000};
	int tries;

	if (launcher) {
		kill(launcher, SIGTERM);
		launcher_await(ms);
	}
	for (tries = 0; kill_children() && tries < END_TRIES; tries++) {
		nanosleep(&pause, NULL);
		launcher_reap();
	}
	launcher_reap();
	launcher = 0;
	if (output >= 0) {
		pthread_join(printer, NULL);
		close(output);
	}
	output = -1;
}

/* Starting ----------------------------------------------------------------- */

/*
 * Ranks of other workers may be on the same processors, so the launcher binds
 * none and lets several share one; what it stores goes into the worker's
 * folder. The node's owner decides as whom workers run, so root may be right.
 */
static void set_environment(void)
{
	static const char *const on[] = {"OMPI_ALLOW_RUN_AS_ROOT",
					 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
					 "OMPI_MCA_rmaps_base_oversubscribe"};
	char state[0x1100];
	size_t i;

	for (i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		setenv(on[i], "1", 1);
	setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
	setenv("PRTE_MCA_hwloc_default_binding_policy", "none", 1);
	setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
	if (getcwd(state, 0x1000)) {
		strcat(state, "/skep-state");
		setenv("SKEP_STATE", state, 1);
	}
	unsetenv("SKEP_STREAM");
}

static void exec_launcher(int to, const char *program, u32 ranks)
{
	const char *skep = getenv("SKEP_PROGRAM");
	char number[16];
	sigset_t none;

	snprintf(number, sizeof(number), "%u", ranks);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	dup2(to, 1);
	dup2(to, 2);
	set_environment();
	execl(skep, "skep", "mpirun", "--tcp", "--quiet", "-n", number, program,
	      (char *)NULL);
	dprintf(2, "%s: %s\n", skep, strerror(errno));
	_exit(127);
}

int launcher_start(const char *program, u32 ranks)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	tail_length = 0;
	tail[0] = 0;
	launcher = fork();
	if (!launcher)
		exec_launcher(ends[1], program, ranks);
	close(ends[1]);
	output = ends[0];
	if (launcher > 0 && !pthread_create(&printer, NULL, print_output, NULL))
		return 0;
	close(output);
	output = -1;
	if (launcher < 0)
		launcher = 0;
	return -EAGAIN;
}

int launcher_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (children < 0)
		return -errno;
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	return children;
}
