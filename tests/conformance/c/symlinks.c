/* SPDX-License-Identifier: MIT */
/* Symbolic links. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	char buf[64] = "";
	struct stat st, st2;
	const struct timespec old[2] = {{1000, 0}, {2000, 0}};
	int fd = open("target", O_CREAT | O_RDWR, 0644);

	CHECK(write(fd, "text", 4) == 4 && close(fd) == 0);
	CHECK(stat("target", &st2) == 0);
	CHECK(symlink("target", "soft") == 0);
	CHECK(readlink("soft", buf, sizeof(buf)) == 6);
	CHECK(!strcmp(buf, "target"));
	CHECK(lstat("soft", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(stat("soft", &st) == 0 && S_ISREG(st.st_mode));
	CHECK(st.st_ino == st2.st_ino && st.st_size == 4);
	CHECK(utimensat(AT_FDCWD, "soft", old, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(lstat("soft", &st) == 0 && st.st_mtime == 2000);
	CHECK(stat("soft", &st) == 0 && st.st_mtime == st2.st_mtime);
	CHECK(utimensat(AT_FDCWD, "soft", old, 0) == 0);
	CHECK(stat("target", &st) == 0 && st.st_mtime == 2000);
	CHECK(FAILS(open("soft", O_RDONLY | O_NOFOLLOW), ELOOP));
	CHECK(linkat(AT_FDCWD, "soft", AT_FDCWD, "same", 0) == 0);
	CHECK(lstat("same", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(symlink("./soft", "further") == 0);
	CHECK(linkat(AT_FDCWD, "further", AT_FDCWD, "followed",
		     AT_SYMLINK_FOLLOW) == 0);
	CHECK(lstat("followed", &st) == 0 && st.st_ino == st2.st_ino);
	CHECK(unlink("same") == 0 && unlink("further") == 0);
	CHECK(unlink("followed") == 0);
	CHECK(symlink("nowhere", "dangling") == 0);
	CHECK(FAILS(linkat(AT_FDCWD, "dangling", AT_FDCWD, "followed",
			   AT_SYMLINK_FOLLOW),
		    ENOENT));
	CHECK(FAILS(stat("dangling", &st), ENOENT));
	CHECK(lstat("dangling", &st) == 0);
	CHECK(symlink("loop", "loop") == 0);
	CHECK(FAILS(stat("loop", &st), ELOOP));
	CHECK(FAILS(linkat(AT_FDCWD, "loop", AT_FDCWD, "followed",
			   AT_SYMLINK_FOLLOW),
		    ELOOP));
	CHECK(FAILS(readlink("target", buf, sizeof(buf)), EINVAL));
	CHECK(unlink("target") == 0 && FAILS(stat("soft", &st), ENOENT));
	CHECK(unlink("soft") == 0 && unlink("dangling") == 0);
	CHECK(unlink("loop") == 0);
	CHECK(mkdir("slashed", 0755) == 0 && symlink("slashed", "to") == 0);
	CHECK(FAILS(link("to/", "other"), EPERM));
	CHECK(FAILS(link("to/", "to"), EEXIST));
	CHECK(FAILS(readlink("to/", (char[8]){0}, 8), EINVAL));
	CHECK(unlink("to") == 0 && rmdir("slashed") == 0);
	return say_done();
}
