/* SPDX-License-Identifier: MIT */
/*
 * Names of descriptors, proc_pid_fd(5): each call on /proc/self/fd/N is on the
 * file that the program has open as N.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include "say.h"

static char name[64];

/* The descriptor's name, below one of the folders that have it. */
static const char *name_of(const char *folder, int fd)
{
	snprintf(name, sizeof(name), "%s/%d", folder, fd);
	return name;
}

/* Windows keeps this one bit of a mode. */
static int is_writable(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_mode & S_IWUSR;
}

static long size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_size;
}

static void check_folder(const char *folder, int fd)
{
	const struct timespec times[2] = {{1000, 0}, {2000, 0}};
	char buf[8] = "", link[256] = "";
	struct statfs fs;
	struct stat st;
	int other;

	CHECK(!chmod(name_of(folder, fd), 0400) && !is_writable(fd));
	CHECK(!chmod(name, 0600) && is_writable(fd));
	CHECK(!utimensat(AT_FDCWD, name, times, 0));
	CHECK(!fstat(fd, &st) && st.st_mtime == 2000);
	CHECK(!truncate(name, 3) && size_of("file") == 3);
	CHECK(!access(name, R_OK | W_OK) && size_of(name) == 3);
	CHECK(!statfs(name, &fs));
	CHECK(readlink(name, link, sizeof(link) - 1) > 5);
	CHECK(!strcmp(strrchr(link, '/'), "/file"));
	other = open(name, O_RDONLY);
	CHECK(other >= 0 && read(other, buf, 8) == 3 && !strcmp(buf, "tex"));
	close(other);
	CHECK(!pwrite(fd, "text", 4, 0) || size_of("file") == 4);
}

/* A number that is not open: also if the host has it. */
static void check_none(const char *folder)
{
	const struct timespec times[2] = {{1000, 0}, {2000, 0}};
	struct statfs fs;
	struct stat st;
	int fd, bad = 0;

	for (fd = 40; fd < 60; fd++) {
		name_of(folder, fd);
		bad += !FAILS(open(name, O_RDONLY), ENOENT);
		bad += !FAILS(stat(name, &st), ENOENT);
		bad += !FAILS(lstat(name, &st), ENOENT);
		bad += !FAILS(access(name, F_OK), ENOENT);
		bad += !FAILS(chmod(name, 0), ENOENT);
		bad += !FAILS(truncate(name, 0), ENOENT);
		bad += !FAILS(statfs(name, &fs), ENOENT);
		bad += !FAILS(utimensat(AT_FDCWD, name, times, 0), ENOENT);
		bad += !FAILS(readlink(name, (char[8]){0}, 8), ENOENT);
		bad += !FAILS(chdir(name), ENOENT);
	}
	CHECK(!bad);
}

/* glibc changes the mode of what it may not follow in this way. */
static void check_path_only(int fd)
{
	int only = open("file", O_PATH);

	CHECK(!chmod(name_of("/proc/self/fd", only), 0444));
	CHECK(!is_writable(fd) && !chmod(name, 0600) && is_writable(fd));
	CHECK(!close(only));
}

static void check_pipe(void)
{
	struct stat st;
	char c = 0;
	int p[2], fd;

	CHECK(!pipe(p) && !stat(name_of("/proc/self/fd", p[1]), &st));
	CHECK(S_ISFIFO(st.st_mode) && !access(name, W_OK));
	CHECK(FAILS(truncate(name, 0), EINVAL));
	fd = open(name, O_WRONLY);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && read(p[0], &c, 1) == 1);
	CHECK(c == 'x' && !close(fd) && !close(p[0]) && !close(p[1]));
}

/* Files of proc(5) are changed by nobody. */
static void check_process(void)
{
	CHECK(!mkdir("folder", 0700) && !chdir("folder"));
	CHECK(!mkdir("/proc/self/cwd/here", 0700) && !access("here", F_OK));
	CHECK(!rmdir("/proc/self/cwd/here") && !chdir(".."));
	CHECK(!rmdir("folder") && FAILS(unlink("/proc/self/status"), EPERM));
	CHECK(FAILS(mkdir("/proc/self/status", 0700), EEXIST));
	CHECK(FAILS(rename("/proc/self/status", "status"), EXDEV));
	CHECK(FAILS(link("/proc/self/status", "status"), EXDEV));
	CHECK(FAILS(chmod("/proc/self/status", 0), EPERM));
}

int main(void)
{
	char own[64];
	int fd = open("file", O_CREAT | O_RDWR, 0600);

	CHECK(fd >= 0 && write(fd, "text", 4) == 4);
	snprintf(own, sizeof(own), "/proc/%d/fd", (int)getpid());
	check_folder("/proc/self/fd", fd);
	check_folder("/dev/fd", fd);
	check_folder("/proc/thread-self/fd", fd);
	check_folder(own, fd);
	check_none("/proc/self/fd");
	check_none("/dev/fd");
	check_none(own);
	check_path_only(fd);
	check_pipe();
	check_process();
	CHECK(!close(fd) && !unlink("file"));
	return say_done();
}
