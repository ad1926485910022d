/* SPDX-License-Identifier: MIT */
/* Files and directories by system calls: make, stat, list, move, remove. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include "say.h"

static void check_open(void)
{
	char buf[16] = "";
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0640);
	struct stat st, st2;

	CHECK(fd >= 0);
	CHECK(FAILS(open("f", O_CREAT | O_EXCL | O_RDWR, 0640), EEXIST));
	CHECK(write(fd, "0123456789", 10) == 10);
	CHECK(lseek(fd, 4, SEEK_SET) == 4 && read(fd, buf, 3) == 3);
	CHECK(!strcmp(buf, "456"));
	CHECK(lseek(fd, -1, SEEK_END) == 9 && lseek(fd, 1, SEEK_CUR) == 10);
	CHECK(FAILS(lseek(fd, -1, SEEK_SET), EINVAL));
	CHECK(read(fd, buf, 1) == 0);
	CHECK(fstat(fd, &st) == 0 && stat("f", &st2) == 0);
	CHECK(st.st_size == 10 && S_ISREG(st.st_mode));
	CHECK(st.st_ino == st2.st_ino && st.st_dev == st2.st_dev);
	CHECK(st.st_nlink == 1 && st.st_blksize > 0);
	CHECK(ftruncate(fd, 5) == 0 && fstat(fd, &st) == 0 && st.st_size == 5);
	CHECK(ftruncate(fd, 20) == 0 && pread(fd, buf, 1, 12) == 1 && !buf[0]);
	CHECK(truncate("f", 3) == 0 && fstat(fd, &st) == 0 && st.st_size == 3);
	CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
	CHECK(close(fd) == 0 && FAILS(close(fd), EBADF));
}

static void check_append(void)
{
	char buf[16] = "";
	int fd = open("f", O_WRONLY | O_APPEND);
	int other = open("f", O_RDONLY);

	CHECK(write(fd, "ab", 2) == 2);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "cd", 2) == 2);
	CHECK(read(other, buf, 16) == 7 && !strcmp(buf + 3, "abcd"));
	CHECK(FAILS(read(fd, buf, 1), EBADF));
	CHECK(FAILS(write(other, buf, 1), EBADF));
	CHECK(fcntl(fd, F_GETFL) & O_APPEND);
	CHECK((fcntl(other, F_GETFL) & O_ACCMODE) == O_RDONLY);
	close(fd);
	close(other);
	fd = open("f", O_RDWR | O_TRUNC);
	CHECK(lseek(fd, 0, SEEK_END) == 0);
	close(fd);
}

static void check_dup(void)
{
	int fd = open("f", O_RDWR), copy = dup(fd), far;

	CHECK(copy >= 0 && copy != fd);
	CHECK(write(fd, "xyz", 3) == 3 && lseek(copy, 0, SEEK_CUR) == 3);
	CHECK(dup2(fd, 50) == 50 && dup2(50, 50) == 50);
	far = fcntl(fd, F_DUPFD, 100);
	CHECK(far == 100);
	far = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	CHECK(far == 101 && fcntl(far, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(100, F_GETFD) == 0);
	CHECK(dup3(fd, 102, O_CLOEXEC) == 102);
	CHECK(FAILS(dup3(fd, fd, 0), EINVAL));
	close(fd);
	CHECK(lseek(50, 0, SEEK_CUR) == 3);
	close(copy);
	close(50);
	close(100);
	close(101);
	close(102);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_folder(const char *path)
{
	char *names[300];
	int i, n = 0, dirs = 0;
	struct dirent *d;
	DIR *dir = opendir(path);

	CHECK(dir);
	while (dir && (d = readdir(dir)) && n < 300) {
		names[n++] = strdup(d->d_name);
		dirs += d->d_type == DT_DIR;
	}
	qsort(names, n, sizeof(*names), by_name);
	printf("%d names, %d directories\n", n, dirs);
	for (i = 0; i < n && i < 6; i++)
		printf("  %s\n", names[i]);
	rewinddir(dir);
	CHECK(readdir(dir) != NULL);
	CHECK(closedir(dir) == 0);
}

static void check_dirs(void)
{
	char name[32], cwd[4096];
	struct stat st, st2;
	int i, dir, good = 1;

	CHECK(mkdir("d", 0755) == 0 && FAILS(mkdir("d", 0755), EEXIST));
	CHECK(mkdir("d/sub", 0700) == 0 && stat("d/sub", &st) == 0);
	CHECK(S_ISDIR(st.st_mode));
	for (i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "d/file%03d", i);
		good &= close(open(name, O_CREAT | O_WRONLY, 0644)) == 0;
	}
	CHECK(good);
	list_folder("d");
	CHECK(FAILS(rmdir("d"), ENOTEMPTY));
	dir = open("d", O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0 && FAILS(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR));
	CHECK(faccessat(dir, "file007", R_OK, 0) == 0);
	CHECK(unlinkat(dir, "file007", 0) == 0);
	CHECK(FAILS(faccessat(dir, "file007", F_OK, 0), ENOENT));
	CHECK(fstatat(dir, "../f", &st, 0) == 0 && stat("f", &st2) == 0);
	CHECK(st.st_ino == st2.st_ino);
	CHECK(chdir("d/sub") == 0 && getcwd(cwd, sizeof(cwd)));
	CHECK(cwd[0] == '/' && !strcmp(cwd + strlen(cwd) - 6, "/d/sub"));
	CHECK(stat("../../f", &st) == 0 && st.st_ino == st2.st_ino);
	CHECK(fchdir(dir) == 0 && chdir("..") == 0);
	for (i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "file%03d", i);
		good &= i == 7 || unlinkat(dir, name, 0) == 0;
	}
	CHECK(good && FAILS(unlink("d"), EISDIR));
	CHECK(close(dir) == 0 && rmdir("d/sub") == 0 && rmdir("d") == 0);
}

static void check_rename(void)
{
	struct stat st;
	int fd = open("a", O_CREAT | O_RDWR, 0644);

	CHECK(write(fd, "one", 3) == 3);
	CHECK(rename("a", "b") == 0 && FAILS(stat("a", &st), ENOENT));
	CHECK(stat("b", &st) == 0 && st.st_size == 3);
	CHECK(rename("b", "f") == 0 && stat("f", &st) == 0 && st.st_size == 3);
	CHECK(FAILS(rename("b", "c"), ENOENT));
	CHECK(unlink("f") == 0 && FAILS(stat("f", &st), ENOENT));
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && fstat(fd, &st) == 0);
	CHECK(st.st_size == 3 && st.st_nlink == 0);
	CHECK(close(fd) == 0);
}

static void check_times(void)
{
	struct timespec times[2] = {{1000000000, 0}, {1100000000, 0}};
	struct statfs fs;
	struct stat st;

	close(open("t", O_CREAT | O_WRONLY, 0644));
	CHECK(utimensat(AT_FDCWD, "t", times, 0) == 0 && stat("t", &st) == 0);
	CHECK(st.st_mtime == 1100000000 && st.st_atime == 1000000000);
	CHECK(access("t", R_OK | W_OK) == 0 && access("t", F_OK) == 0);
	CHECK(FAILS(access("none", F_OK), ENOENT));
	CHECK(chmod("t", 0444) == 0 && stat("t", &st) == 0);
	CHECK(!(st.st_mode & 0222) && (st.st_mode & 0400));
	CHECK(chmod("t", 0644) == 0 && unlink("t") == 0);
	CHECK(statfs(".", &fs) == 0 && fs.f_bsize > 0 && fs.f_blocks > 0);
	CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
}

/* What has no name any more still has its attributes. */
static void check_nameless(int flags)
{
	struct timespec times[2] = {{1000000000, 0}, {1100000000, 0}};
	struct stat st;
	int fd;

	close(open("n", O_CREAT | O_WRONLY, 0644));
	fd = open("n", flags);
	CHECK(fd >= 0 && unlink("n") == 0);
	CHECK(futimens(fd, times) == 0 && fstat(fd, &st) == 0);
	CHECK(st.st_mtime == 1100000000 && st.st_atime == 1000000000);
	CHECK(fchmod(fd, 0444) == 0 && fstat(fd, &st) == 0);
	CHECK(!(st.st_mode & 0222));
	close(fd);
}

/* It has a name also if the process has no terminal. */
static void check_terminal(void)
{
	struct stat st;

	CHECK(stat("/dev/tty", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(st.st_rdev == 0x500 && access("/dev/tty", F_OK) == 0);
}

int main(void)
{
	umask(022);
	check_terminal();
	check_open();
	check_append();
	check_dup();
	check_dirs();
	check_rename();
	check_times();
	check_nameless(O_RDWR);
	check_nameless(O_RDONLY);
	return say_done();
}
