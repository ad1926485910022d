/* SPDX-License-Identifier: MIT */
/* Socket pairs over fork and execve: bytes that were written before, both
 * directions, the end of a process, shutdown, and waiting threads. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

extern char **environ;
static const char *self;

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int make_pair(int fd[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
}

static int reads_text(int fd, const char *text)
{
	char buf[64];
	size_t len = strlen(text), n = 0;
	ssize_t got;

	while (n < len && (got = read(fd, buf + n, len - n)) > 0)
		n += (size_t)got;
	return n == len && !memcmp(buf, text, len);
}

static int writes_text(int fd, const char *text)
{
	ssize_t n = (ssize_t)strlen(text);

	return write(fd, text, (size_t)n) == n;
}

static int events_of(int fd, int wanted, int ms)
{
	struct pollfd p = {.fd = fd, .events = (short)wanted};

	return poll(&p, 1, ms) < 0 ? -1 : p.revents;
}

static void *await_byte(void *arg)
{
	char byte = 0;

	return read(*(int *)arg, &byte, 1) == 1 && byte == 't' ? arg : NULL;
}

/* A thread waits at one end, and the other direction has bytes. */
static void test_moved(void)
{
	pthread_t waiter;
	void *good = NULL;
	int fd[2];
	pid_t pid;

	CHECK(!make_pair(fd) && writes_text(fd[0], "before"));
	CHECK(!pthread_create(&waiter, NULL, await_byte, &fd[0]));
	usleep(20000); /* it waits now */
	pid = fork();
	if (!pid)
		_exit(!reads_text(fd[1], "before") || !writes_text(fd[1], "t"));
	CHECK(!pthread_join(waiter, &good) && good != NULL);
	CHECK(exit_code(pid) == 0);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

/* The child ends without having read all; its answer arrives. */
static void test_ended(void)
{
	char rest[65536] = "";
	int fd[2];
	pid_t pid;

	CHECK(!make_pair(fd));
	pid = fork();
	if (!pid) {
		close(fd[0]);
		_exit(!reads_text(fd[1], "ask") ||
		      !writes_text(fd[1], "answer"));
	}
	CHECK(!close(fd[1]) && writes_text(fd[0], "ask and more"));
	CHECK(events_of(fd[0], POLLIN, 30000) & POLLIN);
	CHECK(exit_code(pid) == 0 && reads_text(fd[0], "answer"));
	CHECK(events_of(fd[0], POLLIN, 30000) & POLLIN);
	CHECK(read(fd[0], rest, 1) <= 0);
	while (send(fd[0], rest, sizeof(rest), MSG_NOSIGNAL) > 0)
		;
	CHECK(errno == EPIPE || errno == ECONNRESET);
	CHECK(FAILS(send(fd[0], rest, 1, MSG_NOSIGNAL), EPIPE));
	CHECK(!close(fd[0]));
}

/* What getsockname and the like say of a pair that is shared. */
static void test_calls(void)
{
	struct sockaddr_un name;
	socklen_t len = sizeof(name), size = sizeof(int);
	int fd[2], type = 0, count = 0;
	char byte = 0;
	pid_t pid;

	CHECK(!make_pair(fd) && writes_text(fd[1], "ab"));
	pid = fork();
	if (!pid)
		_exit(0);
	CHECK(exit_code(pid) == 0);
	CHECK(events_of(fd[0], POLLIN, 30000) == POLLIN);
	CHECK(!ioctl(fd[0], FIONREAD, &count) && count == 2);
	CHECK(recv(fd[0], &byte, 1, MSG_PEEK) == 1 && byte == 'a');
	CHECK(reads_text(fd[0], "ab"));
	CHECK(FAILS(recv(fd[0], &byte, 1, MSG_DONTWAIT), EAGAIN));
	CHECK(events_of(fd[0], POLLIN | POLLOUT, 0) == POLLOUT);
	CHECK(!getsockname(fd[0], (struct sockaddr *)&name, &len) &&
	      name.sun_family == AF_UNIX && len == 2);
	CHECK(!getsockopt(fd[0], SOL_SOCKET, SO_TYPE, &type, &size) &&
	      type == SOCK_STREAM);
	len = sizeof(name);
	CHECK(FAILS(listen(fd[0], 1), EINVAL));
	CHECK(FAILS(connect(fd[0], (struct sockaddr *)&name, 2), EINVAL) ||
	      errno == EISCONN);
	CHECK(!shutdown(fd[0], SHUT_RD) && read(fd[0], &byte, 1) == 0);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

/* A program that copies its input to its output, as two numbers of one end. */
static void test_program(int before)
{
	posix_spawn_file_actions_t actions;
	char *argv[] = {(char *)self, "copy", NULL}, byte;
	int fd[2];
	pid_t pid;

	CHECK(!make_pair(fd));
	if (before)
		CHECK(writes_text(fd[0], "early "));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], 0);
	posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
	posix_spawn_file_actions_addclose(&actions, fd[0]);
	posix_spawn_file_actions_addclose(&actions, fd[1]);
	CHECK(!posix_spawn(&pid, self, &actions, NULL, argv, environ));
	CHECK(!close(fd[1]) && writes_text(fd[0], "late"));
	CHECK(reads_text(fd[0], before ? "early late" : "late"));
	CHECK(!shutdown(fd[0], SHUT_WR));
	CHECK(reads_text(fd[0], "end") && read(fd[0], &byte, 1) == 0);
	CHECK(exit_code(pid) == 0 && !close(fd[0]));
}

static int copy_all(void)
{
	char buf[64];
	ssize_t n;

	while ((n = read(0, buf, sizeof(buf))) > 0)
		if (write(1, buf, (size_t)n) != n)
			return 1;
	return n || !writes_text(1, "end");
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (argc > 1)
		return copy_all();
	self = realpath(argv[0], path);
	test_program(1);
	test_moved();
	test_ended();
	test_calls();
	test_program(0);
	return say_done();
}
