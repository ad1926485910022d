/* SPDX-License-Identifier: MIT */
/* Names that end in a slash, "." or "..", of files, folders and links. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

static const char *const ends[] = {"", "/", "/.", "/..", "//", "/./"};
static const char *const names[] = {"file", "folder", "none"};

static void say_result(const char *call, const char *name, int result)
{
	printf("%s %s: %s\n", call, name,
	       result < 0 ? strerror(errno) : "done");
}

/* As at the start, whatever a call changed. */
static void make_tree(void)
{
	int fd = open("file", O_CREAT | O_WRONLY, 0644);

	close(fd);
	mkdir("folder", 0755);
	rmdir("none");
	unlink("none");
	rmdir("new");
	unlink("new");
}

static void try_name(const char *name)
{
	struct stat st;
	char text[64];
	int fd;

	say_result("stat", name, stat(name, &st));
	say_result("lstat", name, lstat(name, &st));
	say_result("chmod", name, chmod(name, 0755));
	say_result("access", name, access(name, R_OK));
	say_result("truncate", name, truncate(name, 0));
	say_result("readlink", name, (int)readlink(name, text, sizeof(text)));
	say_result("utimensat", name, utimensat(AT_FDCWD, name, NULL, 0));
	fd = open(name, O_RDONLY);
	say_result("open", name, fd);
	close(fd);
	say_result("rename to new", name, rename(name, "new"));
	say_result("rename back", name, rename("new", name));
	make_tree();
	say_result("link of", name, link("file", name));
	make_tree();
	say_result("link", name, link(name, "new"));
	make_tree();
	say_result("mkdir", name, mkdir(name, 0755));
	make_tree();
	say_result("unlink", name, unlink(name));
	make_tree();
	say_result("rmdir", name, rmdir(name));
	make_tree();
}

/* The mode that chmod(2) gives, where a system keeps only some bits. */
static mode_t mode_after(int number, mode_t mode, int flags)
{
	struct stat st = {.st_mode = 0};

	if (number ? syscall(number, AT_FDCWD, "file", mode, flags)
		   : chmod("file", mode))
		return 0;
	return stat("file", &st) == 0 ? st.st_mode : 0;
}

/* fchmodat2(2) of Linux 6.6; musl and this glibc do not call it. */
static void check_modes(void)
{
	mode_t want = mode_after(0, 0400, 0);

	CHECK(chmod("file", 0600) == 0 && want);
	CHECK(mode_after(452, 0400, 0) == want && chmod("file", 0600) == 0);
	CHECK(mode_after(452, 0400, AT_SYMLINK_NOFOLLOW) == want &&
	      chmod("file", 0600) == 0);
	CHECK(FAILS(syscall(452, AT_FDCWD, "file", 0600, 1), EINVAL));
	CHECK(FAILS(syscall(452, AT_FDCWD, "none", 0600, 0), ENOENT));
}

int main(void)
{
	char name[64];
	unsigned i, k;

	make_tree();
	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (k = 0; k < sizeof(ends) / sizeof(*ends); k++) {
			snprintf(name, sizeof(name), "%s%s", names[i], ends[k]);
			try_name(name);
		}
	check_modes();
	CHECK(unlink("file") == 0 && rmdir("folder") == 0);
	return say_done();
}
