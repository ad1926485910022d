/* SPDX-License-Identifier: MIT */
/*
 * Descriptors from 3 on that whoever started bee left open: the program gets
 * them with their numbers. bee itself needs some of these numbers, so the
 * parent's child moves all of them up before it executes bee again.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "host.h"

/* bee's own descriptors are closed at execve; inherited ones are not. */
static int is_inherited(int fd)
{
	int flags = fcntl(fd, F_GETFD);

	return fd > 2 && flags >= 0 && !(flags & FD_CLOEXEC);
}

#define EVERY 0x7fffffff

/* The inherited descriptor with the greatest number below `end`; 0: none; -1:
 * /proc cannot be read. */
static int last_below(int end)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int fd, last = 0;

	if (!dir)
		return -1;
	while ((e = readdir(dir))) {
		fd = atoi(e->d_name);
		if (fd > last && fd < end && is_inherited(fd))
			last = fd;
	}
	closedir(dir);
	return last;
}

int lin_inherited_end(void)
{
	int last = last_below(EVERY);

	return (last > BEE_FAMILY_FD ? last : BEE_FAMILY_FD) + LIN_INHERITED +
	       1;
}

int lin_inherited_move(void)
{
	int fd;

	/* from the top, so that a target is free or was moved already */
	for (fd = last_below(EVERY); fd > 0; fd = last_below(fd)) {
		if (dup2(fd, fd + LIN_INHERITED) < 0) {
			bee_os_message("too many open descriptors to pass them "
				       "on; raise ulimit -n");
			return -1;
		}
		close(fd);
	}
	if (fd < 0)
		bee_os_message("cannot list the inherited descriptors: /proc "
			       "is needed");
	return fd;
}

void lin_inherited_close(void)
{
	int fd;

	for (fd = last_below(EVERY); fd > 0; fd = last_below(fd))
		close(fd);
}

s64 bee_os_inherited_end(void)
{
	int last = last_below(EVERY);

	return last < 0 ? last : last - LIN_INHERITED + 1;
}

s64 bee_os_inherited(u32 fd, struct abi_right *out)
{
	int handle = (int)fd + LIN_INHERITED, flags;

	if (!is_inherited(handle))
		return -EBADF;
	fcntl(handle, F_SETFD, FD_CLOEXEC);
	abi_lin_describe(handle, out);
	flags = fcntl(handle, F_GETFL);
	if (out->listening) /* accept(2) must not wait in the host */
		fcntl(handle, F_SETFL, flags | O_NONBLOCK);
	return 0;
}
