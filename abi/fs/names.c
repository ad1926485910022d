// SPDX-License-Identifier: MIT
/*
 * Owns the way from a guest's name to the host, path_resolution(7). Names below
 * /proc and /sys, and those of descriptors, are the guest's own: the host would
 * take them for its own descriptors and processes, so none reaches it. It
 * answers ELOOP where a link leads there, and then the links are followed here.
 */
#include "names.h"
#include "desc.h"
#include "open.h"
#include "ops.h"
#include "path.h"
#include "procfs.h"
#include "stat.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/* The path of the directory `dirfd`. */
static s64 base_of(struct abi_call *c, u64 dirfd, char *base)
{
	struct abi_desc *d;
	s64 error = 0;

	if ((s32)dirfd == ABI_AT_FDCWD) {
		abi_lock(c->p, &c->p->lock);
		abi_strcpy(base, abi_cwd(c->p), ABI_PATH_MAX);
		abi_unlock(c->p, &c->p->lock);
		return 0;
	}
	d = abi_desc_get(c->p, dirfd);
	if (!d)
		return -LINUX_EBADF;
	if (d->type != ABI_S_IFDIR)
		error = -LINUX_ENOTDIR;
	else
		abi_strcpy(base, d->path, ABI_PATH_MAX);
	abi_desc_put(c->p, d);
	return error;
}

/* The `look` function of abi_path_walk. */
static s64 look_at(void *arg, const char *path, char *text)
{
	struct abi_proc *p = arg;
	struct abi_stat st;
	struct abi_path_op op = {
		.verb = ABI_PATH_LSTAT, .path = path, .stat = &st};
	s64 n = abi_synth_stat(p, path, &st);

	if (!n) {
		n = abi_synth_link(p, path, text, ABI_PATH_MAX);
		if (n)
			return n;
		n = p->host->path(&op);
	}
	if (n < 0 || (st.mode & ABI_S_IFMT) == ABI_S_IFDIR)
		return n < 0 ? n : 0;
	if ((st.mode & ABI_S_IFMT) != ABI_S_IFLNK)
		return -LINUX_ENOTDIR;
	op.verb = ABI_PATH_READLINK;
	op.buf = text;
	op.len = ABI_PATH_MAX;
	return p->host->path(&op);
}

/* The same for a name that need not exist, or be a folder's. What is open as a
 * descriptor may have no name, so the number remains. */
static s64 look_at_any(void *arg, const char *path, char *text)
{
	struct abi_proc *p = arg;
	s64 n;

	if (abi_synth_number(p, path) >= 0 && !abi_synth_is_dir(p, path))
		return 0;
	n = look_at(p, path, text);
	return n == -LINUX_ENOTDIR || n == -LINUX_ENOENT ? 0 : n;
}

s64 abi_path_name(struct abi_call *c, u64 dirfd, const char *name, char *out,
		  u32 *flags)
{
	const struct abi_path_walk walk = {.look = look_at, .arg = c->p};
	char base[ABI_PATH_MAX];
	s64 error;

	base[0] = 0;
	if (name[0] != '/') {
		error = base_of(c, dirfd, base);
		if (error)
			return error;
	}
	return abi_path_join(&walk, base, name, out, flags);
}

s64 abi_path_at(struct abi_call *c, u64 dirfd, u64 gaddr, char *out, u32 *flags)
{
	char path[ABI_PATH_MAX];
	s64 error;

	error = abi_user_string(c->p, path, sizeof(path), gaddr,
				-LINUX_ENAMETOOLONG);
	if (error < 0)
		return error;
	return abi_path_name(c, dirfd, path, out, flags);
}

s64 abi_path_folder(struct abi_call *c, const char *path, char *out, u32 *flags)
{
	const struct abi_path_walk walk = {look_at, c->p, 1};

	return abi_path_join(&walk, "", path, out, flags);
}

s64 abi_path_whole(struct abi_call *c, const char *path, int follow, char *out)
{
	const struct abi_path_walk walk = {look_at_any, c->p, 1};
	char folder[ABI_PATH_MAX];
	u64 at = abi_strlen(path);
	u32 flags;
	s64 n;

	if (follow)
		return abi_path_join(&walk, "", path, out, &flags);
	while (at && path[at - 1] != '/')
		at--;
	abi_memcpy(folder, path, at);
	folder[at] = 0;
	n = abi_path_join(&walk, "", folder, out, &flags);
	if (n < 0)
		return n;
	abi_strcpy(folder, out, sizeof(folder));
	return abi_path_join(0, folder, path + at, out, &flags);
}

s64 abi_path_last(struct abi_call *c, char *path, u32 *end)
{
	const struct abi_path_walk walk = {.look = look_at, .arg = c->p};
	char text[ABI_PATH_MAX], folder[ABI_PATH_MAX];
	u32 i;

	for (i = 0; i <= ABI_PATH_LINKS; i++) {
		s64 n = look_at(c->p, path, text);

		if (n <= 0)
			return n == -LINUX_ENOTDIR ? 0 : n;
		if (n >= ABI_PATH_MAX)
			return -LINUX_ENAMETOOLONG;
		text[n] = 0;
		abi_path_join(0, path, "..", folder, end);
		n = abi_path_join(&walk, folder, text, path, end);
		if (n < 0)
			return n;
	}
	return -LINUX_ELOOP;
}

/* The host ---------------------------------------------------------------- */

/* The operation on a file of the guest's own; `found` is 0 or -ENOENT. */
static s64 run_on_own(const struct abi_path_op *op, s64 found)
{
	int is_device = !!abi_path_below(op->path, "/dev");

	switch (op->verb) {
	case ABI_PATH_MKDIR:
	case ABI_PATH_MKFIFO:
	case ABI_PATH_SYMLINK:
		return found ? found : -LINUX_EEXIST;
	case ABI_PATH_LINK:
	case ABI_PATH_RENAME:
		return found ? found : -LINUX_EXDEV;
	case ABI_PATH_READLINK:
		return found ? found : -LINUX_EINVAL;
	case ABI_PATH_TRUNCATE:
		if (found)
			return found;
		return is_device ? -LINUX_EINVAL : -LINUX_EACCES;
	case ABI_PATH_UTIMENS:
		return found;
	case ABI_PATH_STATFS:
		*op->statfs = (struct abi_statfs){
			.type = is_device ? ABI_FS_TMP : ABI_FS_PROC,
			.bsize = SKEP_PAGE_SIZE,
			.namelen = 255};
		return found;
	default:
		return found ? found : -LINUX_EPERM;
	}
}

/* Whether the name is that of one of the guest's own links, and the operation
 * is on the link itself; its result is *n. */
static int run_on_link(struct abi_proc *p, const struct abi_path_op *op, s64 *n)
{
	char text[32]; /* only needed to know whether it is a link */

	*n = 0;
	if (op->verb == ABI_PATH_READLINK)
		*n = abi_synth_link(p, op->path, op->buf, op->len);
	if (op->verb != ABI_PATH_LSTAT ||
	    abi_synth_link(p, op->path, text, sizeof(text)) <= 0)
		return *n > 0;
	abi_memset(op->stat, 0, sizeof(*op->stat));
	op->stat->nlink = 1;
	op->stat->mode = ABI_S_IFLNK | 0777;
	return 1;
}

/* 0 or -ENOENT of a name that is the guest's own, 1 of one that is the host's.
 */
static s64 find_own(struct abi_proc *p, const char *path)
{
	char text[ABI_PATH_MAX];
	struct abi_stat st;

	if (!abi_synth_is_own(p, path))
		return 1;
	if (abi_synth_stat(p, path, &st) > 0)
		return 0;
	return abi_synth_link(p, path, text, sizeof(text)) > 0 ? 0
							       : -LINUX_ENOENT;
}

static s64 run_on_host(struct abi_proc *p, struct abi_path_op *op)
{
	struct abi_stat st;
	s64 n;

	if (run_on_link(p, op, &n))
		return n;
	if (op->verb == ABI_PATH_STAT || op->verb == ABI_PATH_LSTAT ||
	    op->verb == ABI_PATH_ACCESS) {
		n = abi_synth_stat(p, op->path, op->stat ? op->stat : &st);
		if (n)
			return n < 0 ? n : 0;
	}
	n = find_own(p, op->path);
	if (n <= 0)
		return run_on_own(op, n);
	if (op->path2 && op->verb != ABI_PATH_SYMLINK &&
	    abi_synth_is_own(p, op->path2))
		return -LINUX_EXDEV;
	return p->host->path(op);
}

static s64 run_on_number(struct abi_call *c, u64 fd, struct abi_path_op *op)
{
	struct abi_desc *d = abi_desc_get(c->p, fd);
	char path[ABI_PATH_MAX];
	s64 n;

	if (!d)
		return -LINUX_ENOENT;
	n = abi_file_run(c, d, op);
	abi_strcpy(path, d->path, sizeof(path));
	abi_desc_put(c->p, d);
	if (n != ABI_FILE_BY_NAME)
		return n;
	op->path = path;
	n = run_on_host(c->p, op);
	op->path = 0; /* path ends here */
	return n;
}

static s64 run_on_name(struct abi_call *c, struct abi_path_op *op)
{
	s64 fd = abi_path_follows(op) ? abi_synth_number(c->p, op->path) : -1;

	if (fd >= 0)
		return run_on_number(c, (u64)fd, op);
	if (abi_path_follows(op))
		op->path = abi_synth_real(c->p, op->path);
	return run_on_host(c->p, op);
}

/* With all links followed here. */
static __attribute__((noinline)) s64 run_again(struct abi_call *c,
					       struct abi_path_op op)
{
	char path[ABI_PATH_MAX], path2[ABI_PATH_MAX];
	s64 n = abi_path_whole(c, op.path, abi_path_follows(&op), path);

	if (n >= 0 && op.path2 && op.verb != ABI_PATH_SYMLINK) {
		n = abi_path_whole(c, op.path2, 0, path2);
		op.path2 = path2;
	}
	op.path = path;
	return n < 0 ? n : run_on_name(c, &op);
}

/* Whether a name is below /proc, where a link may lead back to the host. */
static int has_own(struct abi_proc *p, const struct abi_path_op *op)
{
	return abi_synth_is_own(p, op->path) ||
	       (op->path2 && op->verb != ABI_PATH_SYMLINK &&
		abi_synth_is_own(p, op->path2));
}

s64 abi_name_run(struct abi_call *c, struct abi_path_op op)
{
	struct abi_path_op given = op;
	s64 n = run_on_name(c, &op);

	if (n == -LINUX_ELOOP || ((n == -LINUX_ENOENT || n == -LINUX_EXDEV) &&
				  has_own(c->p, &given)))
		return run_again(c, given);
	return n;
}
