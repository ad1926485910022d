/* SPDX-License-Identifier: MIT */
/* Hard links. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	struct stat st, st2;
	int fd = open("target", O_CREAT | O_RDWR, 0644);

	CHECK(write(fd, "text", 4) == 4 && close(fd) == 0);
	CHECK(link("target", "hard") == 0);
	CHECK(stat("target", &st) == 0 && stat("hard", &st2) == 0);
	CHECK(st.st_ino == st2.st_ino && st.st_nlink == 2);
	CHECK(FAILS(link("target", "hard"), EEXIST));
	CHECK(FAILS(link("nowhere", "other"), ENOENT));
	CHECK(unlink("target") == 0 && stat("hard", &st) == 0);
	CHECK(st.st_nlink == 1 && st.st_size == 4);
	CHECK(unlink("hard") == 0 && FAILS(stat("hard", &st), ENOENT));
	return say_done();
}
