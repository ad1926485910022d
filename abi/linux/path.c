/* SPDX-License-Identifier: MIT */
/* Names; root.c resolves them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "abi/include/lin.h"

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

static s64 path_stat(const char *path, struct abi_stat *to, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, path, &st, flags))
		return -errno;
	abi_lin_stat_from(to, &st);
	return 0;
}

static s64 path_statfs(const char *path, struct abi_statfs *to)
{
	struct statfs sf;

	if (statfs(path, &sf))
		return -errno;
	abi_lin_statfs_from(to, &sf);
	return 0;
}

static s64 path_utimens(const char *path, const s64 times[2], u32 nofollow)
{
	struct timespec ts[2];

	abi_lin_times_from(ts, times);
	return errno_result(utimensat(AT_FDCWD, path, ts,
				      nofollow ? AT_SYMLINK_NOFOLLOW : 0));
}

/* The verbs with two names; the text of a symbolic link is kept as it is. */
static s64 two_paths(const struct abi_path_op *op, const char *path)
{
	char path2[PATH_MAX];
	s64 err;

	if (op->verb == ABI_PATH_SYMLINK)
		return errno_result(symlink(op->path2, path));
	err = abi_lin_path_host(op->path2, path2, sizeof(path2), 0);
	if (err)
		return err;
	if (op->verb == ABI_PATH_RENAME)
		return errno_result(rename(path, path2));
	return errno_result(link(path, path2));
}

/* Whether the verb is about what a link at the end of the path points to. */
static u32 follows_link(const struct abi_path_op *op)
{
	switch (op->verb) {
	case ABI_PATH_STAT:
	case ABI_PATH_ACCESS:
	case ABI_PATH_CHMOD:
	case ABI_PATH_TRUNCATE:
	case ABI_PATH_STATFS:
		return 1;
	case ABI_PATH_UTIMENS:
		return !op->mode;
	default:
		return 0;
	}
}

s64 abi_lin_path(struct abi_path_op *op)
{
	char path[PATH_MAX];
	s64 err = abi_lin_path_host(op->path, path, sizeof(path),
				    follows_link(op));

	if (err)
		return err;
	switch (op->verb) {
	case ABI_PATH_STAT:
		return path_stat(path, op->stat, 0);
	case ABI_PATH_LSTAT:
		return path_stat(path, op->stat, AT_SYMLINK_NOFOLLOW);
	case ABI_PATH_ACCESS:
		return errno_result(access(path, (int)op->mode));
	case ABI_PATH_UNLINK:
		return errno_result(unlink(path));
	case ABI_PATH_RMDIR:
		return errno_result(rmdir(path));
	case ABI_PATH_MKDIR:
		return errno_result(mkdir(path, op->mode));
	case ABI_PATH_RENAME:
	case ABI_PATH_LINK:
	case ABI_PATH_SYMLINK:
		return two_paths(op, path);
	case ABI_PATH_READLINK:
		return errno_result(readlink(path, op->buf, op->len));
	case ABI_PATH_CHMOD:
		return errno_result(chmod(path, op->mode));
	case ABI_PATH_TRUNCATE:
		return errno_result(truncate(path, (s64)op->len));
	case ABI_PATH_UTIMENS:
		return path_utimens(path, op->times, op->mode);
	case ABI_PATH_STATFS:
		return path_statfs(path, op->statfs);
	}
	return -ENOSYS;
}
