/* SPDX-License-Identifier: MIT */
/* Bytes that the kernel copies, files without a name, careful renames. With
 * "splice": bytes that it moves between pipes, files and sockets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "say.h"

static char big[200000], back[200000];

static int make_file(const char *name)
{
	return open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
}

static long copy_range(int in, loff_t *from, int out, loff_t *to, size_t len)
{
	return syscall(SYS_copy_file_range, in, from, out, to, len, 0);
}

static void copy_files(void)
{
	int in = make_file("in"), out = make_file("out");
	loff_t from = 10;

	CHECK(write(in, big, sizeof(big)) == sizeof(big));
	CHECK(copy_range(in, &from, out, NULL, sizeof(big)) == 199990);
	CHECK(from == 200000 && lseek(out, 0, SEEK_CUR) == 199990);
	CHECK(pread(out, back, 199990, 0) == 199990);
	CHECK(!memcmp(back, big + 10, 199990));
	CHECK(copy_range(in, NULL, out, NULL, 5) == 0);
	CHECK(FAILS(copy_range(in, &from, -1, NULL, 5), EBADF));
	CHECK(close(in) == 0 && close(out) == 0);
}

/* RENAME_NOREPLACE */
static long rename_new(const char *from, const char *to)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1);
}

static void use_names(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);
	struct stat st;

	CHECK(fd >= 0 && write(fd, "unnamed", 7) == 7);
	CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 7);
	CHECK(close(fd) == 0);
	CHECK(FAILS(rename_new("in", "out"), EEXIST));
	CHECK(rename_new("in", "new") == 0);
	CHECK(unlink("new") == 0 && unlink("out") == 0);
}

static void fill_pipe(void)
{
	struct iovec v[2] = {{"one ", 4}, {"two", 3}};
	int fd[2];

	CHECK(pipe(fd) == 0 && vmsplice(fd[1], v, 2, 0) == 7);
	CHECK(read(fd[0], back, 9) == 7 && !memcmp(back, "one two", 7));
	CHECK(close(fd[0]) == 0 && close(fd[1]) == 0);
}

static void *read_socket(void *fd)
{
	ssize_t n, all = 0;

	while ((n = read(*(int *)fd, back + all, sizeof(back) - all)) > 0)
		all += n;
	return (void *)all;
}

/* A whole file through a pipe and a socket, as a proxy sends it. */
static void move_all(void)
{
	int file = make_file("in"), p[2], s[2];
	loff_t at = 0;
	pthread_t reader;
	void *got;
	ssize_t n = 1, m;

	CHECK(pipe(p) == 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	CHECK(write(file, big, sizeof(big)) == sizeof(big));
	pthread_create(&reader, NULL, read_socket, &s[1]);
	while (n > 0) {
		n = splice(file, &at, p[1], NULL, sizeof(big), 0);
		for (m = n; m > 0;)
			m -= splice(p[0], NULL, s[0], NULL, m, SPLICE_F_MORE);
	}
	CHECK(n == 0 && at == sizeof(big));
	if (n < 0) /* the reader would wait for ever */
		exit(say_done());
	CHECK(close(s[0]) == 0);
	pthread_join(reader, &got);
	CHECK((long)got == sizeof(big) && !memcmp(big, back, sizeof(big)));
	close(s[1]);
	CHECK(write(p[1], "abc", 3) == 3);
	CHECK(splice(p[0], NULL, file, NULL, 9, 0) == 3);
	CHECK(lseek(file, 0, SEEK_CUR) == sizeof(big) + 3);
	CHECK(FAILS(splice(p[0], NULL, file, NULL, 9, SPLICE_F_NONBLOCK),
		    EAGAIN));
	CHECK(close(file) == 0 && unlink("in") == 0);
}

static void copy_pipe(void)
{
	int a[2], b[2];

	CHECK(pipe(a) == 0 && pipe(b) == 0 && write(a[1], "twice", 5) == 5);
	CHECK(tee(a[0], b[1], 9, 0) == 5);
	CHECK(read(a[0], back, 9) == 5 && read(b[0], back, 9) == 5);
	CHECK(!memcmp(back, "twice", 5) && close(b[0]) == 0);
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + i / 4096);
	if (argc > 1) {
		move_all();
		copy_pipe();
		return say_done();
	}
	copy_files();
	use_names();
	fill_pipe();
	(void)argv;
	return say_done();
}
