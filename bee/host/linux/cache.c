/* SPDX-License-Identifier: MIT */
/* Files of the image cache. Owns nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bee/core/cache.h"
#include "host.h"

/* Why the file is not trusted, or NULL. */
static const char *distrust_reason(const struct stat *st, u64 max)
{
	if (!S_ISREG(st->st_mode))
		return "no regular file";
	if (st->st_uid != geteuid())
		return "owned by another user";
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return "writable by others";
	if (st->st_size <= 0 || (u64)st->st_size > max)
		return "of the wrong size";
	return NULL;
}

s64 lin_read_all(int fd, u8 *bytes, u64 len)
{
	s64 n;

	for (; len; bytes += n, len -= (u64)n) {
		n = read(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}

s64 bee_os_cache_read(const char *path, u64 max, u8 **bytes, u64 *len,
		      const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	s64 err = 0;

	if (fd < 0) {
		*why = errno == ELOOP ? "no regular file" : NULL;
		return -errno;
	}
	if (fstat(fd, &st))
		err = -errno;
	else
		*why = distrust_reason(&st, max);
	if (!err && !*why) {
		*len = (u64)st.st_size;
		*bytes = bee_os_alloc(*len);
		err = *bytes ? lin_read_all(fd, *bytes, *len) : -ENOMEM;
	}
	close(fd);
	if (err && *bytes) {
		bee_os_free(*bytes, *len);
		*bytes = NULL;
	}
	return err;
}

s64 lin_write_all(int fd, const u8 *bytes, u64 len)
{
	s64 n;

	for (; len; bytes += n, len -= (u64)n) {
		n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n ? -errno : -ENOSPC;
	}
	return 0;
}

/* Under a temporary name first, so that no reader sees a partial file. */
s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len)
{
	char temp[PATH_MAX];
	int fd;
	s64 err;

	if (snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid()) >=
	    (int)sizeof(temp))
		return -ENAMETOOLONG;
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = lin_write_all(fd, bytes, len);
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temp, path))
		err = -errno;
	if (err)
		unlink(temp);
	return err;
}
