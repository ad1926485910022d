/* SPDX-License-Identifier: MIT */
/* One end of a pipe or a socket pair in several processes: what one waits for
 * another may read, what one wrote is there for all, and a shutdown or the last
 * close reaches the others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define PIECE 10
#define PIECES 10

static int pair; /* else pipes */

static int make_ends(int fd[2])
{
	return pair ? socketpair(AF_UNIX, SOCK_STREAM, 0, fd) : pipe(fd);
}

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int events_of(int fd, int wanted, int ms)
{
	struct pollfd p = {.fd = fd, .events = (short)wanted};

	return poll(&p, 1, ms) < 0 ? -1 : p.revents;
}

static int write_pieces(int fd)
{
	for (int i = 0; i < PIECES; i++) {
		if (write(fd, "0123456789", PIECE) != PIECE)
			return 1;
		usleep(5000);
	}
	return 0;
}

static int read_all(int fd)
{
	char buf[PIECE * PIECES];
	int total = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		total += (int)n;
	return n ? -1 : total;
}

/* The parent waits for each byte and takes none; the child reads all. */
static void test_waiter(void)
{
	int fd[2], end;
	pid_t writer, reader;

	CHECK(!make_ends(fd));
	reader = fork();
	if (!reader) {
		close(fd[1]);
		_exit(read_all(fd[0]));
	}
	writer = fork();
	if (!writer) {
		close(fd[0]);
		_exit(write_pieces(fd[1]));
	}
	CHECK(!close(fd[1]));
	do
		end = events_of(fd[0], POLLIN, 5);
	while (end >= 0 && !(end & POLLHUP));
	CHECK(exit_code(writer) == 0);
	CHECK(exit_code(reader) == PIECE * PIECES);
	CHECK(!close(fd[0]));
}

/* What a process wrote before it ended is there at once. */
static void test_ended(void)
{
	char buf[PIECE];
	int fd[2], count = 0;
	pid_t pid;

	CHECK(!make_ends(fd));
	for (int i = 0; i < 3; i++) {
		pid = fork();
		if (!pid)
			_exit(write(fd[1], "hello", 5) != 5);
		CHECK(exit_code(pid) == 0);
	}
	CHECK(events_of(fd[0], POLLIN, 0) == POLLIN);
	CHECK(!ioctl(fd[0], FIONREAD, &count) && count == 15);
	CHECK(!fcntl(fd[0], F_SETFL, O_NONBLOCK));
	CHECK(read(fd[0], buf, 5) == 5 && read(fd[0], buf, 10) == 10);
	CHECK(FAILS(read(fd[0], buf, 1), EAGAIN));
	CHECK(!close(fd[0]) && !close(fd[1]));
}

/* Bytes that the parent waited for are the child's to read. */
static void test_handed(void)
{
	char buf[8];
	int fd[2];
	pid_t pid;

	CHECK(!make_ends(fd) && write(fd[1], "abcdef", 6) == 6);
	CHECK(events_of(fd[0], POLLIN, 30000) == POLLIN);
	pid = fork();
	if (!pid)
		_exit(read(fd[0], buf, sizeof(buf)) != 6);
	CHECK(exit_code(pid) == 0);
	CHECK(events_of(fd[0], POLLIN, 0) == 0);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

/* A child shuts an end down that its parent has too. */
static void test_shutdown(void)
{
	char byte;
	int fd[2];
	pid_t pid;

	CHECK(!make_ends(fd));
	pid = fork();
	if (!pid)
		_exit(write(fd[1], "x", 1) != 1 || shutdown(fd[1], SHUT_WR));
	CHECK(exit_code(pid) == 0);
	CHECK(read(fd[0], &byte, 1) == 1 && byte == 'x');
	CHECK(events_of(fd[0], POLLIN, 30000) == POLLIN);
	CHECK(read(fd[0], &byte, 1) == 0);
	CHECK(FAILS(send(fd[1], "x", 1, MSG_NOSIGNAL), EPIPE));
	CHECK(write(fd[0], "y", 1) == 1 && read(fd[1], &byte, 1) == 1);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

int main(void)
{
	alarm(120);
	for (pair = 0; pair < 2; pair++) {
		test_waiter();
		test_ended();
		test_handed();
	}
	test_shutdown();
	return say_done();
}
