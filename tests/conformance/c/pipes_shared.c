/* SPDX-License-Identifier: MIT */
/* One end of a pipe or a socket pair in several processes: what one waits for
 * another may read, what one wrote is there for all, and a shutdown or the last
 * close reaches the others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

/* What was written before SHUT_RD is read, then the end, whoever calls; and a
 * write after it fails. */
static void test_read_shut(int forked)
{
	char buf[8];
	int fd[2];
	pid_t pid;

	CHECK(!make_ends(fd) && write(fd[1], "kept", 4) == 4);
	if (!forked)
		CHECK(!shutdown(fd[0], SHUT_RD));
	pid = fork();
	if (!pid)
		_exit((forked && shutdown(fd[0], SHUT_RD)) ||
		      read(fd[0], buf, 2) != 2);
	CHECK(exit_code(pid) == 0);
	CHECK(FAILS(send(fd[1], "x", 1, MSG_NOSIGNAL), EPIPE));
	CHECK(events_of(fd[0], POLLIN | POLLRDHUP, 0) == (POLLIN | POLLRDHUP));
	CHECK(read(fd[0], buf, 8) == 2 && !memcmp(buf, "pt", 2));
	CHECK(read(fd[0], buf, 8) == 0);
	CHECK(events_of(fd[0], POLLIN, 30000) == POLLIN);
	CHECK(write(fd[0], "y", 1) == 1 && read(fd[1], buf, 1) == 1);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

/* The peer shuts down, and ends later. */
static void test_hung_up(void)
{
	char byte;
	int fd[2];
	pid_t pid;

	CHECK(!make_ends(fd));
	pid = fork();
	if (!pid) {
		close(fd[0]);
		_exit(shutdown(fd[1], SHUT_WR) || read(fd[1], &byte, 1) != 1);
	}
	CHECK(!close(fd[1]));
	CHECK(events_of(fd[0], POLLIN | POLLRDHUP, 30000) ==
	      (POLLIN | POLLRDHUP));
	CHECK(events_of(fd[0], 0, 0) == 0 && write(fd[0], "z", 1) == 1);
	CHECK(events_of(fd[0], 0, 30000) == POLLHUP);
	CHECK(exit_code(pid) == 0);
	CHECK(FAILS(send(fd[0], "z", 1, MSG_NOSIGNAL), EPIPE));
	CHECK(!close(fd[0]));
}

/* The peer shuts both ways down while this process polls, and does not end. */
static void test_both_shut(void)
{
	int fd[2], go[2];
	char byte;
	pid_t pid;

	CHECK(!make_ends(fd) && !pipe(go));
	pid = fork();
	if (!pid) {
		close(fd[0]);
		close(go[1]);
		if (shutdown(fd[1], SHUT_WR))
			_exit(1);
		usleep(50000);
		_exit(shutdown(fd[1], SHUT_RD) || read(go[0], &byte, 1));
	}
	CHECK(!close(fd[1]) && !close(go[0]));
	CHECK(events_of(fd[0], 0, 30000) == POLLHUP);
	CHECK(!close(go[1]) && exit_code(pid) == 0 && !close(fd[0]));
}

/* The last reader closes while the writer polls, or ends: then the first write
 * fails. One that goes on sends no signal that would wake the writer. */
static void test_unread(int ends)
{
	int fd[2], go[2];
	char byte;
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	CHECK(!make_ends(fd) && !pipe(go));
	pid = fork();
	if (!pid) {
		close(fd[1]);
		close(go[1]);
		usleep(50000);
		_exit(!ends && (close(fd[0]) || read(go[0], &byte, 1)));
	}
	CHECK(!close(fd[0]) && !close(go[0]));
	CHECK(events_of(fd[1], 0, 30000) == (pair ? POLLHUP : POLLERR));
	CHECK(FAILS(write(fd[1], "x", 1), EPIPE));
	CHECK(!close(go[1]) && exit_code(pid) == 0 && !close(fd[1]));
}

/* A process need not wait until its words are read. */
static void test_much(void)
{
	static char buf[100000];
	struct ucred maker = {0};
	socklen_t len = sizeof(maker);
	size_t total = 0;
	ssize_t n;
	int fd[2];
	pid_t pid;

	CHECK(!make_ends(fd));
	pid = fork();
	if (!pid)
		_exit(write(fd[1], buf, sizeof(buf)) != sizeof(buf) ||
		      getsockopt(fd[1], SOL_SOCKET, SO_PEERCRED, &maker,
				 &len) ||
		      maker.pid != getppid() || maker.uid != getuid() ||
		      maker.gid != getgid());
	CHECK(exit_code(pid) == 0 && !close(fd[1]));
	while ((n = read(fd[0], buf, sizeof(buf))) > 0)
		total += (size_t)n;
	CHECK(!n && total == sizeof(buf) && !close(fd[0]));
}

int main(void)
{
	alarm(120);
	for (pair = 0; pair < 2; pair++) {
		test_waiter();
		test_ended();
		test_handed();
		test_unread(0);
		test_unread(1);
	}
	pair = 1;
	test_shutdown();
	test_read_shut(0);
	test_read_shut(1);
	test_hung_up();
	test_both_shut();
	test_much();
	return say_done();
}
