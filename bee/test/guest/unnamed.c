/* SPDX-License-Identifier: MIT */
/*
 * A program that has files without a name, waits until the file `go` exists,
 * and then says whether they are unharmed. usage: unnamed
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "await.h"

#define FAR                                                                    \
	((off_t)1 << 33) /* more than there is memory, nearly all a hole       \
			  */
#define BIG 2500000	 /* more than one section has */

static int open_file(const char *name, int flags, mode_t mode)
{
	int fd = open(name, flags, mode);

	if (fd < 0)
		report_wrong(name);
	return fd;
}

static void put_text(int fd, const char *text, off_t at)
{
	if (pwrite(fd, text, strlen(text), at) != (ssize_t)strlen(text))
		report_wrong("pwrite");
}

static int has_text(int fd, const char *text, off_t at)
{
	char back[64];
	ssize_t n = pread(fd, back, strlen(text), at);

	return n == (ssize_t)strlen(text) && !memcmp(back, text, (size_t)n);
}

static struct stat stat_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_nlink || !S_ISREG(st.st_mode))
		report_wrong("a file that has a name, or is none");
	return st;
}

/* Two descriptions of one file, and a number of the first: a position each. */
static void check_shared(void)
{
	static const struct timeval times[2] = {{1000, 5}, {2000, 7}};
	int a = open_file("removed", O_RDWR | O_CREAT | O_EXCL, 0640);
	int b = open_file("removed", O_RDONLY, 0), c = dup(a);
	struct stat st;

	put_text(a, "0123456789", 0);
	lseek(a, 4, SEEK_SET);
	lseek(b, 7, SEEK_SET);
	if (unlink("removed") || futimes(a, times))
		report_wrong("unlink");
	await_go();
	st = stat_file(a);
	if (st.st_size != 10 || (st.st_mode & 07777) != 0640 ||
	    st.st_mtim.tv_sec != 2000 || st.st_mtim.tv_nsec != 7000)
		report_wrong("size, mode or time");
	if (st.st_ino != stat_file(b).st_ino || lseek(c, 0, SEEK_CUR) != 4 ||
	    lseek(b, 0, SEEK_CUR) != 7)
		report_wrong("positions");
	put_text(c, "new", 8);
	if (!has_text(b, "01234567new", 0) || write(b, "", 1) != -1 ||
	    lseek(a, 1, SEEK_CUR) != 5 || lseek(c, 0, SEEK_CUR) != 5)
		report_wrong("what they share");
}

/* Not two of the same file: each has its own content and flags. */
struct files {
	int written, far, memory, temporary, locked, big, gone;
};

static struct files make_files(const char *big)
{
	struct files f = {
		.written = open_file("w", O_WRONLY | O_CREAT | O_APPEND, 0200),
		.far = open_file("far", O_RDWR | O_CREAT, 0600),
		.memory = memfd_create("some", 0),
		.temporary = open_file(".", O_RDWR | O_TMPFILE, 0600),
		.locked = open_file("none", O_RDWR | O_CREAT, 0),
		.big = open_file("big", O_RDWR | O_CREAT, 0600),
	};

	if (mkdir("folder", 0700))
		report_wrong("mkdir");
	f.gone = open_file("folder/file", O_RDWR | O_CREAT, 0600);
	put_text(f.written, "abc", 0);
	put_text(f.far, "far", FAR);
	put_text(f.memory, "memory", 0);
	put_text(f.temporary, "temporary", 0);
	put_text(f.locked, "none", 0);
	put_text(f.gone, "gone", 0);
	if (pwrite(f.big, big, BIG, 0) != BIG || unlink("w") || unlink("far") ||
	    unlink("none") || unlink("big") || unlink("folder/file") ||
	    rmdir("folder"))
		report_wrong("unlink");
	return f;
}

static void check_files(const struct files *f, const char *big)
{
	char *back = malloc(BIG);

	if (stat_file(f->written).st_size != 3 ||
	    write(f->written, "def", 3) != 3 ||
	    stat_file(f->written).st_size != 6 ||
	    (stat_file(f->written).st_mode & 07777) != 0200)
		report_wrong("a file to write to");
	if (!has_text(f->far, "far", FAR) || !has_text(f->far, "", 5) ||
	    stat_file(f->far).st_size != FAR + 3 ||
	    stat_file(f->far).st_blocks > 1000)
		report_wrong("a file with a hole");
	if (!has_text(f->memory, "memory", 0) ||
	    !has_text(f->temporary, "temporary", 0) ||
	    !has_text(f->locked, "none", 0) || !has_text(f->gone, "gone", 0))
		report_wrong("contents");
	if (!glob(".removed-*", 0, NULL, &(glob_t){0}))
		report_wrong("a name that it has now");
	if (stat_file(f->locked).st_mode & 07777)
		report_wrong("a mode of 0");
	if (pread(f->big, back, BIG, 0) != BIG || memcmp(back, big, BIG))
		report_wrong("a large file");
	free(back);
}

int main(void)
{
	static char big[BIG];
	struct files f;
	unsigned i;

	for (i = 0; i < BIG; i++)
		big[i] = (char)(i * 2654435761u >> 24);
	f = make_files(big);
	check_shared();
	check_files(&f, big);
	printf("unharmed\n");
	fflush(stdout);
	_exit(0);
}
