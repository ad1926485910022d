/* SPDX-License-Identifier: MIT */
/* Whole files for the image cache. Owns nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "bee/core/cache.h"
#include "host.h"

static int write_all(int fd, const u8 *bytes, u64 len)
{
	s64 n;

	for (; len; bytes += n, len -= (u64)n) {
		n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -errno;
	}
	return 0;
}

/* Under a name of its own first, so that no reader sees a part of it. */
s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len)
{
	char temp[PATH_MAX];
	int fd, err;

	if (snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid()) >=
	    (int)sizeof(temp))
		return -ENAMETOOLONG;
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, bytes, len);
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temp, path))
		err = -errno;
	if (err)
		unlink(temp);
	return err;
}
