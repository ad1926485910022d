/* SPDX-License-Identifier: MIT */
/*
 * Links that lead to names of descriptors, as /var/log/x to /dev/stdout, and
 * into proc(5): what is there is the program's own.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

/* Links that lead to such a name, at the end and on the way. */
static void check_links(int fd, int folder)
{
	char name[64];
	char buf[8] = "";
	struct stat st;
	int other;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	CHECK(!symlink(name, "end"));
	snprintf(name, sizeof(name), "/dev/fd/%d", folder);
	CHECK(!symlink(name, "way"));
	other = open("end", O_RDWR | O_CREAT, 0600);
	CHECK(other >= 0 && read(other, buf, 8) == 4 && !strcmp(buf, "text"));
	CHECK(!close(other) && FAILS(open("end", O_RDWR | O_NOFOLLOW), ELOOP));
	CHECK(!chmod("end", 0604) && !fstat(fd, &st) &&
	      (st.st_mode & 0777) == 0604);
	CHECK(!truncate("end", 2) && !fstat(fd, &st) && st.st_size == 2);
	CHECK(!stat("end", &st) && S_ISREG(st.st_mode) && st.st_size == 2);
	CHECK(!access("end", R_OK) && !lstat("end", &st));
	CHECK(S_ISLNK(st.st_mode));
	other = open("way/new", O_CREAT | O_EXCL | O_WRONLY, 0600);
	CHECK(other >= 0 && !close(other) && !access("folder/new", F_OK));
	CHECK(!mkdir("way/inner", 0700) && !access("folder/inner", F_OK));
	other = open("way/new", O_WRONLY | O_NOFOLLOW);
	CHECK(other >= 0 && !close(other));
	CHECK(!rename("way/new", "way/old") && !access("folder/old", F_OK));
	CHECK(!unlink("way/old") && !rmdir("way/inner"));
	CHECK(!unlink("end") && !unlink("way"));
}

/* The first line of the program's own map, or of the command's. */
static int same_text(const char *a, const char *b)
{
	char one[64] = "", two[64] = "";
	int x = open(a, O_RDONLY), y = open(b, O_RDONLY);
	int same = x >= 0 && y >= 0 && read(x, one, 63) > 0 &&
		   read(y, two, 63) > 0 && !strcmp(one, two);

	close(x);
	close(y);
	return same;
}

/* The text of a link, and whether it is the same as that of another one. */
static int same_link(const char *a, const char *b)
{
	char one[512] = "", two[512] = "";

	return readlink(a, one, 511) > 0 && readlink(b, two, 511) > 0 &&
	       !strcmp(one, two);
}

static int same_inode(const char *a, const char *b)
{
	struct stat one, two;

	return !stat(a, &one) && !stat(b, &two) && one.st_dev == two.st_dev &&
	       one.st_ino == two.st_ino && one.st_mode == two.st_mode;
}

/* A link whose text goes through another link into /proc. */
static void check_chains(void)
{
	static const char status[] = "/proc/self/status";
	char name[512];
	int i;

	CHECK(getcwd(name, 400) && strcat(name, "/again/status"));
	CHECK(!symlink(name, "whole") && same_text("whole", status));
	CHECK(!symlink("again/status", "part") && same_text("part", status));
	CHECK(!symlink("../part", "folder/up"));
	CHECK(same_text("folder/up", status) && same_inode("part", status));
	CHECK(!symlink("all/self", "far") && same_text("far/status", status));
	CHECK(!truncate("folder/up", 0) == !truncate(status, 0));
	CHECK(!unlink("whole") && !unlink("part") && !unlink("far"));
	CHECK(!unlink("folder/up"));
	/* Above the root ".." stays there. */
	for (i = 0; i < 40; i++)
		strcpy(name + 3 * i, "../");
	strcat(name, "proc/self/status");
	CHECK(!symlink(name, "folder/high"));
	CHECK(same_text("folder/high", status) && !unlink("folder/high"));
}

/* What stat, lstat and readlink say behind a link into /proc. */
static void check_behind(void)
{
	char pid[16] = "", name[32];
	struct stat st;

	CHECK(!symlink("/proc", "all"));
	CHECK(readlink("all/self", pid, 15) > 0 && atoi(pid) == getpid());
	CHECK(same_link("again/exe", "/proc/self/exe"));
	CHECK(same_link("all/self/cwd", "/proc/self/cwd"));
	CHECK(!lstat("again/exe", &st) && S_ISLNK(st.st_mode));
	CHECK(!lstat("all/self", &st) && S_ISLNK(st.st_mode));
	CHECK(!lstat("all/cpuinfo", &st) && S_ISREG(st.st_mode));
	CHECK(same_inode("all/cpuinfo", "/proc/cpuinfo"));
	CHECK(FAILS(readlink("all/cpuinfo", name, 32), EINVAL));
	CHECK(FAILS(readlink("/proc/cpuinfo", name, 32), EINVAL));
	CHECK(FAILS(lstat("again/none", &st), ENOENT));
	snprintf(name, sizeof(name), "all/%d/status", getpid());
	CHECK(same_inode(name, "/proc/self/status"));
	check_chains();
	CHECK(!unlink("all"));
}

static void check_null(void)
{
	int fd;

	CHECK(!symlink("/dev/null", "null"));
	fd = open("null", O_WRONLY);
	CHECK(fd >= 0 && write(fd, "text", 4) == 4 && !close(fd));
	CHECK(!unlink("null"));
}

/* Links into /proc show the program's own files, and unlink the program's. */
static void check_process(void)
{
	CHECK(!symlink("/proc/self/status", "status"));
	CHECK(!symlink("/proc/self", "self") && !symlink("self", "again"));
	CHECK(same_text("status", "/proc/self/status"));
	CHECK(same_text("again/status", "/proc/self/status"));
	check_behind();
	check_null();
	CHECK(!unlink("status") && !unlink("again") && !unlink("self"));
	CHECK(!chdir("folder"));
	CHECK(!mkdir("/proc/self/cwd/here", 0700) && !access("here", F_OK));
	CHECK(!symlink("/proc/self/cwd", "../cwd"));
	CHECK(!rmdir("../cwd/here") && FAILS(access("here", F_OK), ENOENT));
	CHECK(!unlink("../cwd") && !chdir(".."));
}

/* A log that is a link to the standard output. */
static void check_output(void)
{
	int fd;

	CHECK(!symlink("/dev/stdout", "log"));
	fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
	CHECK(fd >= 0 && dprintf(fd, "ok a line of the log\n") == 21);
	CHECK(!close(fd) && !unlink("log"));
}

/* The descriptors, once as they come, and once with numbers that the host does
 * not have. */
int main(void)
{
	int fd = open("file", O_CREAT | O_RDWR, 0600), folder, i;

	CHECK(fd >= 0 && write(fd, "text", 4) == 4);
	CHECK(!mkdir("folder", 0700));
	folder = open("folder", O_RDONLY | O_DIRECTORY);
	CHECK(folder >= 0);
	for (i = 0; i < 2; i++) {
		CHECK(pwrite(fd, "text", 4, 0) == 4);
		check_links(fd, folder);
		fd = fcntl(fd, F_DUPFD, 150);
		folder = fcntl(folder, F_DUPFD, 150);
		CHECK(fd >= 150 && folder >= 150);
	}
	check_process();
	check_output();
	CHECK(!rmdir("folder") && !unlink("file"));
	return say_done();
}
