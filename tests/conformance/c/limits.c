/* SPDX-License-Identifier: MIT */
/* RLIMIT_FSIZE: what writes and larger files get of it; RLIMIT_NOFILE. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "say.h"

static volatile sig_atomic_t signals;

static void on_signal(int signo)
{
	signals += signo == SIGXFSZ;
}

static int is_signaled(void)
{
	int was = signals;

	signals = 0;
	return was;
}

static void limit_size(rlim_t most)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = most;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static long size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : (long)st.st_size;
}

static void check_writes(int fd)
{
	char buf[16] = "0123456789abcde";
	struct iovec v[3] = {{buf, 3}, {buf, 3}, {buf, 3}};

	CHECK(write(fd, buf, 6) == 6 && write(fd, buf, 6) == 4 &&
	      !is_signaled());
	CHECK(FAILS(write(fd, buf, 1), EFBIG) && is_signaled() == 1);
	CHECK(pwritev(fd, v, 3, 5) == 5 && !is_signaled());
	CHECK(FAILS(pwrite(fd, buf, 2, 10), EFBIG) && is_signaled() == 1);
	CHECK(FAILS(pwrite(fd, buf, 2, 4096), EFBIG) && is_signaled() == 1);
	CHECK(size_of(fd) == 10 && lseek(fd, 0, SEEK_CUR) == 10);
	CHECK(lseek(fd, 8, SEEK_SET) == 8 && writev(fd, v, 3) == 2);
	CHECK(size_of(fd) == 10 && !is_signaled());
}

static void check_sizes(int fd)
{
	CHECK(ftruncate(fd, 4) == 0 && ftruncate(fd, 10) == 0 &&
	      !is_signaled());
	CHECK(FAILS(ftruncate(fd, 11), EFBIG) && is_signaled() == 1);
	CHECK(FAILS(truncate("limited", 11), EFBIG) && is_signaled() == 1);
	limit_size(5);
	CHECK(ftruncate(fd, 8) == 0 && size_of(fd) == 8 && !is_signaled());
	CHECK(FAILS(pwrite(fd, "x", 1, 6), EFBIG) && is_signaled() == 1);
	limit_size(10);
}

static void check_append(void)
{
	int fd = open("limited", O_WRONLY | O_APPEND);

	CHECK(write(fd, "xyz", 3) == 2 && !is_signaled());
	CHECK(FAILS(write(fd, "z", 1), EFBIG) && is_signaled() == 1);
	CHECK(close(fd) == 0);
}

static void check_others(void)
{
	int ends[2];
	char buf[64];

	CHECK(pipe(ends) == 0 && write(ends[1], buf, 64) == 64);
	CHECK(read(ends[0], buf, 64) == 64 && !is_signaled());
}

/* 1,024 are what bee has, too. */
static void check_numbers(void)
{
	struct rlimit limit;
	int fd, last = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 1024;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while ((fd = open("limited", O_RDONLY)) >= 0)
		last = fd;
	CHECK(errno == EMFILE && last == 1023);
	CHECK(FAILS(dup(0), EMFILE) &&
	      FAILS(socket(AF_INET, SOCK_STREAM, 0), EMFILE));
	for (fd = 3; fd <= last; fd++)
		close(fd);
}

int main(void)
{
	int fd = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0600);

	signal(SIGXFSZ, on_signal);
	limit_size(10);
	check_writes(fd);
	check_sizes(fd);
	check_append();
	check_others();
	limit_size(RLIM_INFINITY);
	CHECK(pwrite(fd, "x", 1, 100) == 1 && size_of(fd) == 101);
	check_numbers();
	fd = open("limited", O_RDONLY);
	CHECK(close(fd) == 0 && unlink("limited") == 0);
	return say_done();
}
