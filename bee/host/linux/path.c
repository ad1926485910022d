/* SPDX-License-Identifier: MIT */
/*
 * Names. --root is put in front of what the guest says; links and ".." inside
 * it can lead out, so it is a view, not a wall (docs/design/bee.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "host.h"

static s64 result(s64 n)
{
	return n < 0 ? -errno : n;
}

/* The root without its last slash; "" for /. */
static const char *root(void)
{
	const char *r = bee.options->root;

	return r && strcmp(r, "/") ? r : "";
}

s64 lin_path_host(const char *guest, char *buf, u64 len)
{
	int n = snprintf(buf, len, "%s%s", root(), guest);

	return n < 0 || (u64)n >= len ? -ENAMETOOLONG : 0;
}

s64 bee_os_guest_path(const char *host, char *buf, u64 len)
{
	char full[PATH_MAX], base[PATH_MAX] = "";
	const char *path = full;
	u64 n;

	if (!realpath(host, full))
		return -errno;
	if (*root() && !realpath(root(), base))
		return -errno;
	n = strlen(base);
	/* Outside the root the guest sees the program at the root's top. */
	if (strncmp(full, base, n) == 0 && full[n] == '/')
		path = full + n;
	else
		path = strrchr(full, '/');
	if (strlen(path) >= len)
		return -ENAMETOOLONG;
	strcpy(buf, path);
	return 0;
}

s64 bee_os_guest_cwd(char *buf, u64 len)
{
	char here[PATH_MAX];
	u64 n = 0;

	if (bee.options->cwd) {
		if (bee.options->cwd[0] != '/' ||
		    strlen(bee.options->cwd) >= len)
			return -EINVAL;
		strcpy(buf, bee.options->cwd);
		return 0;
	}
	if (!getcwd(here, sizeof(here)))
		return -errno;
	if (*root()) {
		char base[PATH_MAX];

		if (!realpath(root(), base))
			return -errno;
		n = strlen(base);
		if (strncmp(here, base, n) || (here[n] && here[n] != '/'))
			n = strlen(here);
	}
	if (strlen(here + n) >= len)
		return -ENAMETOOLONG;
	strcpy(buf, here[n] ? here + n : "/");
	return 0;
}

static s64 path_stat(const char *path, struct abi_stat *to, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, path, &st, flags))
		return -errno;
	lin_stat_from(to, &st);
	return 0;
}

static s64 path_statfs(const char *path, struct abi_statfs *to)
{
	struct statfs sf;

	if (statfs(path, &sf))
		return -errno;
	lin_statfs_from(to, &sf);
	return 0;
}

static s64 path_utimens(const char *path, const s64 times[2])
{
	struct timespec ts[2];

	lin_times_from(ts, times);
	return result(utimensat(AT_FDCWD, path, ts, 0));
}

/* The verbs with two names; the text of a symbolic link is kept as it is. */
static s64 two_paths(const struct abi_path_op *op, const char *path)
{
	char path2[PATH_MAX];
	s64 err;

	if (op->verb == ABI_PATH_SYMLINK)
		return result(symlink(op->path2, path));
	err = lin_path_host(op->path2, path2, sizeof(path2));
	if (err)
		return err;
	if (op->verb == ABI_PATH_RENAME)
		return result(rename(path, path2));
	return result(link(path, path2));
}

s64 lin_path(struct abi_path_op *op)
{
	char path[PATH_MAX];
	s64 err = lin_path_host(op->path, path, sizeof(path));

	if (err)
		return err;
	switch (op->verb) {
	case ABI_PATH_STAT:
		return path_stat(path, op->stat, 0);
	case ABI_PATH_LSTAT:
		return path_stat(path, op->stat, AT_SYMLINK_NOFOLLOW);
	case ABI_PATH_ACCESS:
		return result(access(path, (int)op->mode));
	case ABI_PATH_UNLINK:
		return result(unlink(path));
	case ABI_PATH_RMDIR:
		return result(rmdir(path));
	case ABI_PATH_MKDIR:
		return result(mkdir(path, op->mode));
	case ABI_PATH_RENAME:
	case ABI_PATH_LINK:
	case ABI_PATH_SYMLINK:
		return two_paths(op, path);
	case ABI_PATH_READLINK:
		return result(readlink(path, op->buf, op->len));
	case ABI_PATH_CHMOD:
		return result(chmod(path, op->mode));
	case ABI_PATH_TRUNCATE:
		return result(truncate(path, (s64)op->len));
	case ABI_PATH_UTIMENS:
		return path_utimens(path, op->times);
	case ABI_PATH_STATFS:
		return path_statfs(path, op->statfs);
	}
	return -ENOSYS;
}
