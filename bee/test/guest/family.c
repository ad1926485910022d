/* SPDX-License-Identifier: MIT */
/* A process, its child and its grandchild: what each hears of the others. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready[2], word[2];

static void make_pipes(void)
{
	if (pipe(ready) || pipe(word))
		exit(2);
}

static void close_pipes(void)
{
	close(ready[0]);
	close(ready[1]);
	close(word[0]);
	close(word[1]);
}

/* 1: the word came; 0: nobody gave it for a long time. */
static int await_word(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&p, 1, 20000) == 1 && read(fd, &byte, 1) == 1;
}

static void kill_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(1);
	}
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	printf("a child was ended by signal %d\n", WTERMSIG(status));
}

/* The child of a vfork ends, but has a child that lives on: it waits for the
 * word, which only the first process can give, and answers. */
static void leave_grandchild(void)
{
	int status;
	char verdict;
	pid_t pid;

	make_pipes();
	pid = vfork();
	if (!pid) {
		if (!syscall(SYS_fork)) {
			verdict = await_word(word[0]) ? 'y' : 'n';
			_exit(write(ready[1], &verdict, 1) != 1);
		}
		_exit(5);
	}
	write(word[1], "w", 1);
	if (read(ready[0], &verdict, 1) != 1)
		verdict = '?';
	waitpid(pid, &status, 0);
	printf("vfork: exit %d, the grandchild was told: %c\n",
	       WEXITSTATUS(status), verdict);
	close_pipes();
}

/* The child asks, while it runs, for its parent and for itself. */
static void signal_parent(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(kill(getppid(), 0) ? 1 : kill(getpid(), 0) ? 2 : 3);
	waitpid(pid, &status, 0);
	printf("a child may signal its parent: %d\n", WEXITSTATUS(status));
}

static void end_with_seven(int sig)
{
	(void)sig;
	_exit(7);
}

/* Stops by the default action; after that it has a handler. */
static void run_stopped(int sig)
{
	setpgid(0, 0);
	raise(sig);
	signal(sig, end_with_seven);
	write(ready[1], "r", 1);
	await_word(word[0]);
	_exit(1);
}

static void stop_twice(int sig)
{
	int first, second;
	pid_t pid;

	make_pipes();
	pid = fork();
	if (!pid)
		run_stopped(sig);
	waitpid(pid, &first, WUNTRACED);
	kill(pid, SIGCONT);
	await_word(ready[0]);
	kill(pid, sig);
	waitpid(pid, &second, WUNTRACED);
	printf("%d: stopped %d, then a handler ran: %d\n", sig,
	       WIFSTOPPED(first),
	       WIFEXITED(second) && WEXITSTATUS(second) == 7);
	kill(pid, SIGKILL);
	close_pipes();
}

int main(void)
{
	static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};

	setvbuf(stdout, NULL, _IONBF, 0);
	kill_child();
	signal_parent();
	leave_grandchild();
	for (int i = 0; i < 3; i++)
		stop_twice(stops[i]);
	return 0;
}
