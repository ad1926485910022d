/* SPDX-License-Identifier: MIT */
/* FIFOs: fifo(7), and the other files that mknod makes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

static volatile int *opening; /* shared: the child is about to open */
static volatile int reader = -1, alarms;

/* Opens the other end when the parent most likely waits for it. */
static pid_t start_child(int flags, const char *text)
{
	char buf[8] = "";
	pid_t pid;
	int fd;

	*opening = 0;
	pid = fork();
	if (pid)
		return pid;
	poll(NULL, 0, 50);
	*opening = 1;
	fd = open("fifo", flags);
	if (fd < 0)
		_exit(1);
	if (flags == O_WRONLY)
		_exit(!*text || write(fd, text, 3) == 3 ? 0 : 2);
	_exit(read(fd, buf, 8) == 3 && !strcmp(buf, text) ? 0 : 3);
}

static int ends_well(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void check_reader(void)
{
	char buf[8] = "";
	pid_t pid = start_child(O_WRONLY, "abc");
	int fd = open("fifo", O_RDONLY);

	CHECK(pid > 0 && fd >= 0 && *opening);
	CHECK(read(fd, buf, 8) == 3 && !strcmp(buf, "abc"));
	CHECK(ends_well(pid) && read(fd, buf, 8) == 0 && close(fd) == 0);
	/* A writer that comes, writes nothing and goes. */
	pid = start_child(O_WRONLY, "");
	fd = open("fifo", O_RDONLY);
	CHECK(pid > 0 && fd >= 0 && *opening && read(fd, buf, 8) == 0);
	CHECK(ends_well(pid) && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(close(fd) == 0);
}

static void check_writer(void)
{
	pid_t pid = start_child(O_RDONLY, "def");
	int fd = open("fifo", O_WRONLY);

	CHECK(pid > 0 && fd >= 0 && *opening && write(fd, "def", 3) == 3);
	CHECK(close(fd) == 0 && ends_well(pid));
}

static void check_nonblocking(void)
{
	struct pollfd p = {.events = POLLIN};
	char byte = 0;
	int in, out;

	CHECK(FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO));
	in = p.fd = open("fifo", O_RDONLY | O_NONBLOCK);
	CHECK(in >= 0 && read(in, &byte, 1) == 0 && poll(&p, 1, 0) == 0);
	out = open("fifo", O_WRONLY);
	CHECK(out >= 0 && FAILS(read(in, &byte, 1), EAGAIN));
	CHECK(poll(&p, 1, 0) == 0 && write(out, "x", 1) == 1);
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
	CHECK(read(in, &byte, 1) == 1 && byte == 'x' && close(out) == 0);
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLHUP);
	CHECK(read(in, &byte, 1) == 0);
	out = open("fifo", O_WRONLY | O_NONBLOCK);
	CHECK(out >= 0 && close(in) == 0 &&
	      signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	CHECK(FAILS(write(out, "x", 1), EPIPE) && close(out) == 0);
	out = open("fifo", O_RDWR);
	CHECK(out >= 0 && write(out, "y", 1) == 1 && read(out, &byte, 1) == 1 &&
	      byte == 'y' && close(out) == 0);
	out = open("fifo", O_PATH);
	CHECK(out >= 0 && FAILS(read(out, &byte, 1), EBADF) && close(out) == 0);
}

static void on_alarm(int signo)
{
	(void)signo;
	alarms++;
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
}

static void check_signals(void)
{
	struct sigaction act = {.sa_handler = on_alarm};
	int fd;

	CHECK(sigaction(SIGALRM, &act, NULL) == 0);
	alarm(1);
	CHECK(FAILS(open("fifo", O_WRONLY), EINTR) && alarms == 1);
	CHECK(reader >= 0 && close(reader) == 0);
	act.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGALRM, &act, NULL) == 0);
	alarm(1);
	fd = open("fifo", O_WRONLY);
	CHECK(fd >= 0 && alarms == 2 && close(fd) == 0 && close(reader) == 0);
}

static void *open_reader(void *arg)
{
	(void)arg;
	open("fifo", O_RDONLY);
	return NULL;
}

static void check_threads(void)
{
	pthread_t thread;
	void *end = NULL;

	CHECK(pthread_create(&thread, NULL, open_reader, NULL) == 0);
	poll(NULL, 0, 20);
	CHECK(pthread_cancel(thread) == 0);
	CHECK(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
	/* The process ends while this one still waits. */
	CHECK(pthread_create(&thread, NULL, open_reader, NULL) == 0);
	poll(NULL, 0, 20);
}

int main(void)
{
	struct stat st;

	opening = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	umask(022);
	if (!CHECK(mkfifo("fifo", 0666) == 0) || opening == MAP_FAILED)
		return say_done();
	CHECK(!stat("fifo", &st) && st.st_mode == (S_IFIFO | 0644));
	CHECK(FAILS(mkfifo("fifo", 0666), EEXIST));
	CHECK(FAILS(mkfifo("none/fifo", 0666), ENOENT));
	check_reader();
	check_writer();
	check_nonblocking();
	check_signals();
	CHECK(mknod("plain", S_IFREG | 0666, 0) == 0 && !stat("plain", &st) &&
	      st.st_mode == (S_IFREG | 0644));
	CHECK(FAILS(mknod("plain", 0, 0), EEXIST) && unlink("plain") == 0);
	CHECK(FAILS(mknod("bad", 0150000 | 0666, 0), EINVAL));
	check_threads();
	return say_done();
}
