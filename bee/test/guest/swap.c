/* SPDX-License-Identifier: MIT */
/*
 * Two parts of a test. `swap A B` exchanges what two names stand for, until it
 * is killed; below bee, `swap TRIES` tries meanwhile to change what is in
 * /swap, which is a folder and a link to another folder in turn.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXCHANGE 2 /* RENAME_EXCHANGE, which musl does not name */

/* The folder has none of these; what the link's text leads to has all. */
static int change_names(void)
{
	int bad = 0, fd;

	bad |= unlink("/swap/unlinked") == 0;
	bad |= rmdir("/swap/removed") == 0;
	bad |= rename("/swap/renamed", "/swap/moved") == 0;
	bad |= link("/swap/file", "/swap/linked") == 0;
	bad |= chmod("/swap/file", 0600) == 0;
	bad |= truncate("/swap/file", 0) == 0;
	bad |= utimensat(AT_FDCWD, "/swap/file", NULL, 0) == 0;
	bad |= access("/swap/file", R_OK) == 0;
	fd = open("/swap/file", O_WRONLY | O_TRUNC);
	bad |= fd >= 0;
	close(fd);
	if (mkdir("/swap/made", 0755) == 0)
		rmdir("/swap/made");
	if (symlink("x", "/swap/symbolic") == 0)
		unlink("/swap/symbolic");
	return bad;
}

int main(int argc, char **argv)
{
	int i, bad = 0;

	while (argc == 3)
		if (syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2],
			    EXCHANGE))
			return 1;
	for (i = atoi(argv[1]); i > 0; i--)
		bad |= change_names();
	puts(bad ? "changed" : "kept");
	return 0;
}
