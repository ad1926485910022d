/* SPDX-License-Identifier: MIT */
/* Pipes: order, blocking, end of file, EPIPE, non-blocking, large volume. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

#define VOLUME (8 << 20)

static void *run_producer(void *arg)
{
	int fd = (intptr_t)arg, n;
	static unsigned char buf[50000];
	unsigned i, sent = 0;

	while (sent < VOLUME) {
		n = VOLUME - sent < sizeof(buf) ? VOLUME - sent : sizeof(buf);
		for (i = 0; i < (unsigned)n; i++)
			buf[i] = (sent + i) * 7;
		for (i = 0; i < (unsigned)n;) {
			int done = write(fd, buf + i, n - i);

			if (done <= 0)
				return NULL;
			i += done;
		}
		sent += n;
	}
	close(fd);
	return NULL;
}

static void check_volume(void)
{
	static unsigned char buf[33333];
	unsigned got = 0, wrong = 0;
	pthread_t thread;
	int fds[2], i, n;

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pthread_create(&thread, NULL, run_producer, (void *)(intptr_t)fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++)
			wrong += buf[i] != (unsigned char)((got + i) * 7);
		got += n;
	}
	pthread_join(thread, NULL);
	CHECK(n == 0 && got == VOLUME && wrong == 0);
	close(fds[0]);
}

static void check_nonblocking(void)
{
	char buf[4096] = "";
	int fds[2], n, total = 0;

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	CHECK(FAILS(read(fds[0], buf, 1), EAGAIN));
	while ((n = write(fds[1], buf, sizeof(buf))) > 0)
		total += n;
	CHECK(n == -1 && errno == EAGAIN && total >= 4096);
	CHECK(ioctl(fds[0], FIONREAD, &n) == 0 && n == total);
	CHECK(read(fds[0], buf, sizeof(buf)) == 4096);
	CHECK(fcntl(fds[0], F_SETFL, 0) == 0);
	CHECK(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		total -= n;
	CHECK(n == 0 && total == 4096);
	close(fds[0]);
}

/* The number of writes of a page that fit. */
static int fill_pages(int fd)
{
	static char page[4096];
	int n = 0;

	while (write(fd, page, sizeof(page)) == sizeof(page))
		n++;
	return errno == EAGAIN ? n : -1;
}

static void check_size(void)
{
	char buf[4096];
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	CHECK(fcntl(fds[0], F_GETPIPE_SZ) == 65536);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 5000) == 8192);
	CHECK(fcntl(fds[0], F_GETPIPE_SZ) == 8192);
	CHECK(fill_pages(fds[1]) == 2);
	CHECK(FAILS(fcntl(fds[1], F_SETPIPE_SZ, 4096), EBUSY));
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 16384) == 16384);
	CHECK(fill_pages(fds[1]) == 2);
	while (read(fds[0], buf, sizeof(buf)) > 0)
		;
	CHECK(fcntl(fds[0], F_SETPIPE_SZ, 0) == 4096);
	CHECK(fill_pages(fds[1]) == 1);
	CHECK(FAILS(fcntl(fds[0], F_SETPIPE_SZ, -1), EINVAL));
	close(fds[0]);
	close(fds[1]);
	CHECK(FAILS(fcntl(fds[0], F_GETPIPE_SZ), EBADF));
}

static volatile sig_atomic_t broken;

static void on_pipe(int signo)
{
	broken = signo;
}

int main(void)
{
	struct stat st;
	char buf[16] = "";
	int fds[2];

	CHECK(pipe(fds) == 0);
	CHECK(write(fds[1], "hello", 5) == 5 && write(fds[1], "!", 1) == 1);
	CHECK(read(fds[0], buf, 3) == 3 && !strcmp(buf, "hel"));
	CHECK(read(fds[0], buf, 16) == 3 && !strncmp(buf, "lo!", 3));
	CHECK(FAILS(write(fds[0], "x", 1), EBADF));
	CHECK(FAILS(read(fds[1], buf, 1), EBADF));
	CHECK(fstat(fds[0], &st) == 0 && S_ISFIFO(st.st_mode));
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK(FAILS(write(fds[1], "x", 1), EPIPE));
	signal(SIGPIPE, on_pipe);
	CHECK(FAILS(write(fds[1], "x", 1), EPIPE));
	CHECK(broken == SIGPIPE);
	close(fds[1]);
	check_volume();
	check_nonblocking();
	check_size();
	return say_done();
}
