/* SPDX-License-Identifier: MIT */
/* Names; root.c resolves them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "abi/include/lin.h"

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

static s64 stat_place(const struct abi_lin_place *at, struct abi_stat *to,
		      int flags)
{
	struct stat st;

	if (fstatat(at->dir, at->name, &st, flags))
		return -errno;
	abi_lin_stat_from(to, &st);
	return 0;
}

static s64 statfs_place(const struct abi_lin_place *at, struct abi_statfs *to)
{
	struct statfs sf;

	if (statfs(at->name, &sf))
		return -errno;
	abi_lin_statfs_from(to, &sf);
	return 0;
}

static s64 set_times(const struct abi_lin_place *at, const s64 times[2],
		     u32 nofollow)
{
	struct timespec ts[2];

	abi_lin_times_from(ts, times);
	return errno_result(utimensat(at->dir, at->name, ts,
				      nofollow ? AT_SYMLINK_NOFOLLOW : 0));
}

/* abi_lin_place returns "." for "/", which has no name in a folder. */
static s64 remove_folder(const struct abi_lin_place *at)
{
	if (!strcmp(at->name, "."))
		return -EBUSY;
	return errno_result(unlinkat(at->dir, at->name, AT_REMOVEDIR));
}

/* Operations with two names. */
static s64 use_places(const struct abi_path_op *op,
		      const struct abi_lin_place *at)
{
	struct abi_lin_place to;
	s64 err = abi_lin_place(op->path2, 0, &to);

	if (err)
		return err;
	if (op->verb == ABI_PATH_RENAME)
		err = renameat2(at->dir, at->name, to.dir, to.name, op->mode);
	else
		err = linkat(at->dir, at->name, to.dir, to.name, 0);
	err = errno_result(err);
	abi_lin_place_close(&to);
	return err;
}

/* The folder is AT_FDCWD for the calls that take none: abi_path_follows. */
static s64 use_place(struct abi_path_op *op, const struct abi_lin_place *at)
{
	switch (op->verb) {
	case ABI_PATH_STAT:
		return stat_place(at, op->stat, 0);
	case ABI_PATH_LSTAT:
		return stat_place(at, op->stat, AT_SYMLINK_NOFOLLOW);
	case ABI_PATH_ACCESS:
		return errno_result(access(at->name, (int)op->mode));
	case ABI_PATH_UNLINK:
		return errno_result(unlinkat(at->dir, at->name, 0));
	case ABI_PATH_RMDIR:
		return remove_folder(at);
	case ABI_PATH_MKDIR:
		return errno_result(mkdirat(at->dir, at->name, op->mode));
	case ABI_PATH_MKFIFO:
		return errno_result(mkfifoat(at->dir, at->name, op->mode));
	case ABI_PATH_RENAME:
	case ABI_PATH_LINK:
		return use_places(op, at);
	case ABI_PATH_SYMLINK: /* its text is kept as it is */
		return errno_result(symlinkat(op->path2, at->dir, at->name));
	case ABI_PATH_READLINK:
		return errno_result(
			readlinkat(at->dir, at->name, op->buf, op->len));
	case ABI_PATH_CHMOD:
		return errno_result(chmod(at->name, op->mode));
	case ABI_PATH_TRUNCATE:
		return errno_result(truncate(at->name, (s64)op->len));
	case ABI_PATH_UTIMENS:
		return set_times(at, op->times, op->mode);
	case ABI_PATH_STATFS:
		return statfs_place(at, op->statfs);
	}
	return -ENOSYS;
}

/*
 * Whether what lstat found is in procfs or sysfs, where a folder on the way may
 * have been a link: 1, 0, or an errno. Most file systems have a device. Of one
 * without, which is not one of these two, the number is remembered.
 */
static s64 check_own(const char *path, const struct stat *st)
{
	static u64 other; /* atomic */
	int fd;
	s64 own;

	if (major(st->st_dev) ||
	    st->st_dev == __atomic_load_n(&other, __ATOMIC_RELAXED))
		return 0;
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	own = abi_lin_is_own(fd, st);
	close(fd);
	if (!own)
		__atomic_store_n(&other, st->st_dev, __ATOMIC_RELAXED);
	return own;
}

/*
 * One call for stat of what is no link, and two for the text of a link, which
 * abi reads to follow it: 1, if there is nothing more to do. A folder on the
 * way is not looked at: these calls change nothing.
 */
static s64 look_at_once(struct abi_path_op *op, s64 *err)
{
	const struct abi_lin_place at = {.dir = AT_FDCWD, .name = op->path};
	struct stat st;

	if (*abi_lin_root_text() ||
	    (op->verb != ABI_PATH_READLINK && op->verb != ABI_PATH_LSTAT &&
	     op->verb != ABI_PATH_STAT))
		return 0;
	if (lstat(op->path, &st))
		*err = errno == ENOENT ? abi_lin_missing(op->path) : -errno;
	else
		*err = check_own(op->path, &st);
	if (*err) {
		*err = *err > 0 ? -ELOOP : *err;
		return 1;
	}
	if (op->verb == ABI_PATH_READLINK)
		*err = use_place(op, &at);
	else
		abi_lin_stat_from(op->stat, &st);
	return op->verb != ABI_PATH_STAT || !S_ISLNK(st.st_mode);
}

s64 abi_lin_path(struct abi_path_op *op)
{
	struct abi_lin_place at;
	s64 err;

	if (look_at_once(op, &err))
		return err;
	err = abi_lin_place(op->path, abi_path_follows(op), &at);
	if (err)
		return err;
	err = use_place(op, &at);
	abi_lin_place_close(&at);
	return err;
}
