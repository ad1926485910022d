/* SPDX-License-Identifier: MIT */
/* Positioned and vectored reads and writes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	char a[8] = "", b[8] = "", c[8] = "";
	struct iovec out[3] = {{"one", 3}, {"", 0}, {"twothree", 8}};
	struct iovec in[3] = {{a, 2}, {b, 5}, {c, 7}};
	void *volatile bad = (void *)16;
	volatile int minus = -1, many = 5000;
	int fd = open("v", O_CREAT | O_RDWR | O_TRUNC, 0644), pipes[2];

	CHECK(writev(fd, out, 3) == 11);
	CHECK(lseek(fd, 0, SEEK_CUR) == 11);
	CHECK(pwrite(fd, "ZZ", 2, 100) == 2 && lseek(fd, 0, SEEK_END) == 102);
	CHECK(pread(fd, a, 4, 99) == 3 && !a[0] && a[1] == 'Z');
	CHECK(pread(fd, a, 4, 200) == 0);
	CHECK(FAILS(pread(fd, a, 4, -1), EINVAL));
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, in, 3) == 14);
	CHECK(!strncmp(a, "on", 2) && !strcmp(b, "etwot"));
	CHECK(!memcmp(c, "hree\0\0", 6));
	CHECK(pwritev(fd, out, 3, 50) == 11 && preadv(fd, in, 3, 50) == 14);
	CHECK(!strcmp(b, "etwot"));
	CHECK(lseek(fd, 0, SEEK_CUR) == 14);
	CHECK(FAILS(readv(fd, in, minus), EINVAL));
	CHECK(FAILS(writev(fd, in, many), EINVAL));
	CHECK(pipe(pipes) == 0);
	CHECK(FAILS(pread(pipes[0], a, 1, 0), ESPIPE));
	CHECK(FAILS(lseek(pipes[0], 0, SEEK_SET), ESPIPE));
	CHECK(writev(pipes[1], out, 3) == 11);
	CHECK(readv(pipes[0], in, 3) == 11 && !strcmp(b, "etwot"));
	CHECK(FAILS(write(pipes[1], bad, 4), EFAULT));
	CHECK(FAILS(pwrite(fd, bad, 4, 0), EFAULT));
	CHECK(close(fd) == 0 && unlink("v") == 0);
	return say_done();
}
