/* SPDX-License-Identifier: MIT */
/*
 * A program with processes of each kind, which waits until the file `go` exists
 * and then says whether all are as they were. usage: tree [WHAT], which cannot
 * be saved, or tree again NUMBER...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "await.h"

static volatile sig_atomic_t ended, called, beats;
static int file, orders[2], results[2], beaten[2], wanted[2];
static pid_t first, leader, session, below, between, zombie, killed, orphan,
	follower, beater;

static void count_end(int sig)
{
	(void)sig;
	ended++;
}

static void count_call(int sig)
{
	(void)sig;
	called++;
}

static void count_beat(int sig)
{
	(void)sig;
	beats++;
}

static void check_that(int good, const char *what)
{
	if (!good)
		report_wrong(what);
}

static pid_t start_process(void (*run)(void))
{
	pid_t pid = fork();

	if (!pid) {
		run();
		_exit(0);
	}
	return pid;
}

static void await_order(void)
{
	char byte;

	close(orders[1]);
	if (read(orders[0], &byte, 1) != 1)
		_exit(90);
}

static void run_leader(void)
{
	setpgid(0, 0);
	await_order();
	if (getppid() != first || getpgrp() != getpid())
		_exit(91);
	_exit(write(file, "leader\n", 7) == 7 ? 5 : 92);
}

static void run_below(void)
{
	struct sigaction sa = {.sa_handler = count_call};
	pid_t self = getpid();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	check_that(write(results[1], &self, sizeof(self)) == sizeof(self),
		   "write");
	sigemptyset(&set);
	sigsuspend(&set);
	_exit(called == 1 && getsid(0) == getppid() ? 9 : 93);
}

/* It waits for its child before and after it was saved. */
static void run_session(void)
{
	int status;

	setsid();
	below = start_process(run_below);
	_exit(waitpid(below, &status, 0) == below && WIFEXITED(status) &&
			      WEXITSTATUS(status) == 9
		      ? 11
		      : 94);
}

/* If there was shared memory, bee has a process of its own for such mutexes. */
static void lock_robust(void)
{
	static pthread_mutex_t mutex;
	pthread_mutexattr_t robust;

	munmap(mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 4096);
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &robust);
	check_that(!pthread_mutex_lock(&mutex), "a robust mutex");
}

/* In the leader's group, and in a folder of its own. It is told how many
 * signals it should have got. */
static void run_follower(void)
{
	int n, i;

	close(wanted[1]);
	mkdir("own", 0700);
	check_that(!chdir("own"), "a working directory");
	lock_robust();
	check_that(write(results[1], "f", 1) == 1, "write");
	if (read(wanted[0], &n, sizeof(n)) != sizeof(n))
		_exit(95);
	for (i = 0; i < 2000 && beats != n; i++)
		usleep(1000);
	_exit(getpgrp() == leader && beats == n ? 12 : 96);
}

/* Sends both, the first process and the follower, as many signals, which are
 * queued. Some are sent when those are at rest already, and this is not. */
static void run_beater(void)
{
	const struct timespec beat = {0, 50000};
	const union sigval value = {0};
	int sent = 0;

	while (access("go", F_OK)) {
		check_that(!sigqueue(first, SIGRTMIN, value) &&
				   !sigqueue(follower, SIGRTMIN, value),
			   "sigqueue");
		sent++;
		nanosleep(&beat, NULL);
	}
	check_that(write(beaten[1], &sent, sizeof(sent)) == sizeof(sent),
		   "write");
	pause();
}

static void run_zombie(void)
{
	_exit(7);
}

static void run_killed(void)
{
	raise(SIGKILL);
}

static void run_orphan(void)
{
	pid_t self = getpid();

	while (getppid() == between)
		usleep(1000);
	check_that(write(results[1], &self, sizeof(self)) == sizeof(self),
		   "write");
	await_order();
	check_that(write(results[1], getppid() == 1 ? "o" : "?", 1) == 1,
		   "write");
}

/* The parent of the orphan. */
static void run_between(void)
{
	between = getpid();
	start_process(run_orphan);
}

static void take_bytes(void *to, size_t len, const char *what)
{
	check_that(read(results[0], to, len) == (ssize_t)len, what);
}

/* It stays a zombie. */
static void await_end(pid_t pid)
{
	siginfo_t info;

	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT))
		check_that(errno == EINTR, "waitid");
}

static void start_beats(void)
{
	char byte;
	struct sigaction sa = {.sa_handler = count_beat,
			       .sa_flags = SA_RESTART};

	sigaction(SIGRTMIN, &sa, NULL);
	check_that(!pipe(beaten) && !pipe(wanted), "pipe");
	follower = start_process(run_follower);
	take_bytes(&byte, 1, "a follower");
	check_that(!setpgid(follower, leader), "setpgid");
	beater = start_process(run_beater);
	close(beaten[1]);
	close(wanted[0]);
}

static void start_all(void)
{
	struct sigaction sa = {.sa_handler = count_end, .sa_flags = SA_RESTART};
	pid_t pid;

	first = getpid();
	file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
	check_that(file >= 0 && !pipe(orders) && write(file, "first\n", 6) == 6,
		   "files");
	sigaction(SIGCHLD, &sa, NULL);
	pid = start_process(run_between);
	check_that(waitpid(pid, NULL, 0) == pid, "waitpid");
	take_bytes(&orphan, sizeof(orphan), "an orphan");
	session = start_process(run_session);
	take_bytes(&below, sizeof(below), "a grandchild");
	leader = start_process(run_leader);
	while (getpgid(leader) != leader)
		usleep(1000);
	start_beats();
	zombie = start_process(run_zombie);
	killed = start_process(run_killed);
	close(results[1]);
	close(orders[0]);
	await_end(zombie);
	await_end(killed);
}

/* Of which only one end is left. */
static void make_halves(int half[2])
{
	int p[2];

	check_that(!pipe(p) && write(p[1], "left", 4) == 4, "pipe");
	close(p[1]);
	half[0] = p[0];
	check_that(!pipe(p), "pipe");
	close(p[0]);
	half[1] = p[1];
}

static void check_halves(const int half[2])
{
	char text[8];

	check_that(read(half[0], text, 8) == 4 && !memcmp(text, "left", 4) &&
			   !read(half[0], text, 8),
		   "a pipe whose writer is gone");
	signal(SIGPIPE, SIG_IGN);
	check_that(write(half[1], "x", 1) < 0 && errno == EPIPE,
		   "a pipe whose reader is gone");
}

static int wait_code(pid_t pid)
{
	int status;

	check_that(waitpid(pid, &status, 0) == pid, "waitpid");
	return status;
}

static void check_numbers(void)
{
	check_that(getpgid(leader) == leader && getsid(session) == session &&
			   getpgid(below) == session &&
			   getsid(below) == session && !kill(-leader, 0) &&
			   !kill(orphan, 0),
		   "groups and sessions");
}

static void check_beats(void)
{
	int sent;

	check_that(read(beaten[0], &sent, sizeof(sent)) == sizeof(sent) &&
			   !kill(beater, SIGKILL) &&
			   wait_code(beater) == SIGKILL,
		   "the one that sends signals");
	check_that(beats == sent, "signals between processes");
	check_that(write(wanted[1], &sent, sizeof(sent)) == sizeof(sent) &&
			   wait_code(follower) == 12 << 8,
		   "a group's member, or its signals");
}

static void check_file(void)
{
	char text[64];

	check_that(write(file, "end\n", 4) == 4 &&
			   pread(file, text, 64, 0) == 17 &&
			   !memcmp(text, "first\nleader\nend\n", 17),
		   "a file whose position processes share");
}

/* The program that a new process starts knows the others' numbers. */
static void check_new(char **argv)
{
	char number[2][16];
	pid_t pid;

	snprintf(number[0], 16, "%d", getpid());
	snprintf(number[1], 16, "%d", below);
	pid = fork();
	if (!pid)
		execl(argv[0], argv[0], "again", number[0], number[1], NULL);
	check_that(pid != leader && pid != session && pid != below &&
			   pid != orphan && pid != zombie && pid != killed &&
			   pid != first,
		   "a number that a saved process has");
	check_that(!wait_code(pid), "a program that was started since");
}

/* What cannot be saved ------------------------------------------------------
 */

#define MANY 64
static pid_t more[MANY];
static int more_count;

static void run_socket(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
	check_that(write(results[1], "s", 1) == 1, "write");
	pause();
}

static void run_pause(void)
{
	check_that(write(results[1], "p", 1) == 1, "write");
	pause();
}

static void run_alone(void)
{
	setpgid(0, 0);
	run_pause();
}

static void *wait_long(void *arg)
{
	run_pause();
	return arg;
}

static void run_headless(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, wait_long, NULL);
	pthread_exit(NULL);
}

/* Its group lives on without it. */
static void run_gone(void)
{
	setpgid(0, 0);
	start_process(run_pause);
}

/* The same with its session; its child leads a group. */
static void run_lone(void)
{
	setsid();
	start_process(run_alone);
}

static void add_more(void (*run)(void))
{
	char byte;

	more[more_count++] = start_process(run);
	take_bytes(&byte, 1, "one more process");
}

static void take_thing(const char *what)
{
	int i;

	if (!strcmp(what, "socket"))
		add_more(run_socket);
	else if (!strcmp(what, "headless"))
		add_more(run_headless);
	else if (!strcmp(what, "gone") || !strcmp(what, "lone")) {
		add_more(*what == 'g' ? run_gone : run_lone);
		waitpid(more[0], NULL, 0);
		more[0] = -more[0];
	} else if (!strcmp(what, "nameless")) {
		check_that(open(".", O_TMPFILE | O_RDWR, 0600) >= 0,
			   "O_TMPFILE");
		add_more(run_pause);
	} else if (!strcmp(what, "stopped")) {
		add_more(run_pause);
		kill(more[0], SIGSTOP);
		waitpid(more[0], NULL, WUNTRACED);
	} else
		for (i = 0; i < MANY; i++)
			add_more(run_pause);
}

static void end_more(void)
{
	while (more_count)
		kill(more[--more_count], SIGKILL);
}

static int run_again(char **argv)
{
	return getppid() != atoi(argv[2]) || kill(atoi(argv[3]), 0);
}

int main(int argc, char **argv)
{
	int half[2], before;
	char byte;

	if (argc > 3)
		return run_again(argv);
	check_that(!pipe(results), "pipe");
	if (argc > 1) {
		take_thing(argv[1]);
		await_go();
		end_more();
		puts("unharmed");
		return 0;
	}
	start_all();
	make_halves(half);
	before = ended;
	await_go();
	check_that(ended == before, "SIGCHLD for a process that had ended");
	check_beats();
	check_numbers();
	check_halves(half);
	check_new(argv);
	check_that(wait_code(zombie) == 7 << 8 && wait_code(killed) == SIGKILL,
		   "processes that had ended");
	check_that(write(orders[1], "xx", 2) == 2 &&
			   wait_code(leader) == 5 << 8,
		   "the leader of a group");
	check_file();
	take_bytes(&byte, 1, "the orphan");
	check_that(byte == 'o', "the orphan's parent");
	check_that(!kill(below, SIGUSR1) && wait_code(session) == 11 << 8,
		   "a child that waits for its own");
	check_that(!read(results[0], &byte, 1), "the end of a pipe");
	puts("unharmed");
	return 0;
}
