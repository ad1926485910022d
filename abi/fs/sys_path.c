// SPDX-License-Identifier: MIT
/*
 * Owns the calls that take names: opening, and changing directories. cwd is
 * guarded by proc.lock; everything else here has no state.
 */
#include "desc.h"
#include "fd.h"
#include "names.h"
#include "open.h"
#include "ops.h"
#include "path.h"
#include "procfs.h"
#include "stat.h"
#include "size_limit.h"
#include "unnamed.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/signal/signal.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/*
 * A name that ends in a slash, "." or "..": 0 for a folder, also one that a
 * link leads to, else -ENOTDIR or another error. Other names: 0.
 */
static s64 check_end(struct abi_call *c, const char *path, u32 flags,
		     enum abi_path_verb verb)
{
	struct abi_stat st;
	s64 error;

	if (!(flags & ABI_PATH_MUST_DIR))
		return 0;
	error = abi_name_run(
		c,
		(struct abi_path_op){.verb = verb, .path = path, .stat = &st});
	if (error < 0)
		return error;
	return (st.mode & ABI_S_IFMT) == ABI_S_IFDIR ? 0 : -LINUX_ENOTDIR;
}

/* A name that ends in a dot needs a folder before it. */
static s64 check_dots(struct abi_call *c, const char *path, u32 flags)
{
	return flags & (ABI_PATH_DOT | ABI_PATH_DOTS)
		       ? check_end(c, path, flags, ABI_PATH_STAT)
		       : 0;
}

/* Of a name for what is to be made and is no folder. */
static s64 check_new_end(struct abi_call *c, const char *path, u32 flags)
{
	s64 error = check_dots(c, path, flags);

	if (error || !(flags & ABI_PATH_MUST_DIR))
		return error;
	error = check_end(c, path, flags, ABI_PATH_LSTAT);
	return error && error != -LINUX_ENOTDIR ? error : -LINUX_EEXIST;
}

static s64 check_verb_end(struct abi_call *c, const struct abi_path_op *op,
			  u32 flags)
{
	switch (op->verb) {
	case ABI_PATH_MKDIR:
		return flags & (ABI_PATH_DOT | ABI_PATH_DOTS)
			       ? check_new_end(c, op->path, flags)
			       : 0;
	case ABI_PATH_MKFIFO:
	case ABI_PATH_SYMLINK:
		return check_new_end(c, op->path, flags);
	default:
		return check_end(c, op->path, flags, ABI_PATH_STAT);
	}
}

s64 abi_path_run(struct abi_call *c, u64 dirfd, u64 gaddr,
		 struct abi_path_op *op)
{
	char path[ABI_PATH_MAX];
	u32 flags;
	s64 error = abi_path_at(c, dirfd, gaddr, path, &flags);

	if (error < 0)
		return error;
	op->path = path;
	error = check_verb_end(c, op, flags);
	if (!error)
		error = abi_name_run(c, *op);
	op->path = 0; /* path ends here */
	return error;
}

/* open ------------------------------------------------------------------- */

/* Waits for the other end of a FIFO, as fifo(7) says. */
static s64 open_waiting(struct abi_call *c, struct abi_open *open)
{
	s64 error;

	do {
		if (abi_pending(c->p, c->t->index))
			return -ABI_ERESTARTSYS;
		error = c->p->host->file_open(open);
	} while (error == -LINUX_EINTR);
	if (error == -LINUX_EOPNOTSUPP)
		abi_log_once(c->p, &c->p->fds.said_fifo,
			     "open of a FIFO refused (EOPNOTSUPP): this host "
			     "cannot wait for the other end; O_NONBLOCK and "
			     "O_RDWR work");
	return error;
}

static s64 open_host(struct abi_call *c, struct abi_desc *d, const char *path,
		     u32 flags, u32 mode)
{
	struct abi_open open = {path, flags & ~(u32)ABI_O_CLOEXEC,
				mode, -1,
				0,    !(flags & (ABI_O_NONBLOCK | ABI_O_PATH))};
	s64 error;

	/* Without a family the process is not the guest's own. */
	if (!abi_forks(c->p))
		open.flags |= ABI_O_NOCTTY;
	error = open.wait ? open_waiting(c, &open)
			  : c->p->host->file_open(&open);
	if (error < 0) {
		d->kind = ABI_DESC_NULL; /* nothing to close */
		return error;
	}
	d->handle = open.handle;
	d->type = open.type & ABI_S_IFMT;
	d->kind = abi_desc_kind(d->type);
	if (flags & ABI_O_DIRECTORY && d->type != ABI_S_IFDIR)
		return -LINUX_ENOTDIR;
	return 0;
}

/* Status flags that are kept in the description, as F_GETFL returns them. */
#define KEPT                                                                   \
	(ABI_O_ACCMODE | ABI_O_APPEND | ABI_O_NONBLOCK | ABI_O_SYNC |          \
	 ABI_O_DIRECT | ABI_O_LARGEFILE | ABI_O_DIRECTORY | ABI_O_NOFOLLOW |   \
	 ABI_O_NOATIME | ABI_O_PATH)

static s64 open_name(struct abi_call *c, const char *path, u32 flags, u32 mode)
{
	struct abi_desc *d = abi_desc_new(c->p, ABI_DESC_FILE, flags & KEPT);
	s64 result;

	if (!d)
		return -LINUX_ENFILE;
	result = abi_synth_open(c->p, path, d);
	if (!result)
		result = open_host(c, d, abi_synth_real(c->p, path), flags,
				   mode & ~*abi_umask(c->p));
	if (result < 0) {
		abi_desc_put(c->p, d);
		return result;
	}
	abi_strcpy(d->path, path, sizeof(d->path));
	return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
}

/*
 * /proc/self/fd/N and /dev/stdin: a file with a name is opened again by it,
 * others get one more descriptor.
 */
static s64 open_again(struct abi_call *c, u64 fd, u32 flags)
{
	struct abi_desc *d = abi_desc_get(c->p, fd);
	char path[ABI_PATH_MAX];

	if (!d)
		return -LINUX_ENOENT;
	if (flags & ABI_O_NOFOLLOW && !(flags & ABI_O_PATH)) {
		abi_desc_put(c->p, d);
		return -LINUX_ELOOP;
	}
	if (!abi_desc_ops(d)->regular || *d->path != '/')
		return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
	abi_strcpy(path, d->path, sizeof(path));
	abi_desc_put(c->p, d);
	return open_name(c, path, flags, 0);
}

static s64 open_once(struct abi_call *c, const char *path, u32 flags, u32 mode)
{
	s64 fd = abi_synth_number(c->p, path);

	return fd < 0 ? open_name(c, path, flags, mode)
		      : open_again(c, (u64)fd, flags);
}

/* Where a file is to be made, the host would follow a link to its own
 * /dev/stdout, and make that. */
static int is_link_to_make(struct abi_call *c, const char *path, u32 flags)
{
	struct abi_stat st;
	struct abi_path_op op = {
		.verb = ABI_PATH_LSTAT, .path = path, .stat = &st};

	return (flags & (ABI_O_CREAT | ABI_O_EXCL | ABI_O_NOFOLLOW)) ==
		       ABI_O_CREAT &&
	       !abi_name_run(c, op) && (st.mode & ABI_S_IFMT) == ABI_S_IFLNK;
}

s64 abi_file_open(struct abi_call *c, const char *path, u32 flags, u32 mode)
{
	char whole[ABI_PATH_MAX];
	s64 n = is_link_to_make(c, path, flags)
			? -LINUX_ELOOP
			: open_once(c, path, flags, mode);

	if (n != -LINUX_ELOOP &&
	    (n != -LINUX_ENOENT || !abi_synth_is_own(c->p, path)))
		return n;
	n = abi_path_whole(c, path, !(flags & ABI_O_NOFOLLOW), whole);
	return n < 0 ? n : open_once(c, whole, flags, mode);
}

static s64 open_at(struct abi_call *c, u64 dirfd, u64 name, u32 flags, u32 mode)
{
	char path[ABI_PATH_MAX];
	u32 path_flags;
	s64 error;

	if ((flags & ABI_O_ACCMODE) == ABI_O_ACCMODE)
		return -LINUX_EINVAL;
	error = abi_path_at(c, dirfd, name, path, &path_flags);
	if (error < 0)
		return error;
	if ((flags & ABI_O_TMPFILE) == ABI_O_TMPFILE)
		return abi_unnamed_tmpfile(c, path, flags, mode & 07777);
	if (path_flags & ABI_PATH_MUST_DIR) {
		if (flags & ABI_O_CREAT)
			return -LINUX_EISDIR;
		flags |= ABI_O_DIRECTORY;
	}
	return abi_file_open(c, path, flags, mode & 07777);
}

s64 abi_sys_open(struct abi_call *c)
{
	return open_at(c, (u64)ABI_AT_FDCWD, c->a[0], (u32)c->a[1],
		       (u32)c->a[2]);
}

s64 abi_sys_openat(struct abi_call *c)
{
	return open_at(c, c->a[0], c->a[1], (u32)c->a[2], (u32)c->a[3]);
}

s64 abi_sys_creat(struct abi_call *c)
{
	return open_at(c, (u64)ABI_AT_FDCWD, c->a[0],
		       ABI_O_CREAT | ABI_O_WRONLY | ABI_O_TRUNC, (u32)c->a[1]);
}

/* The working directory -------------------------------------------------- */

s64 abi_sys_getcwd(struct abi_call *c)
{
	char cwd[ABI_PATH_MAX];
	u64 len;

	abi_lock(c->p, &c->p->lock);
	len = abi_strcpy(cwd, abi_cwd(c->p)[0] ? abi_cwd(c->p) : "/",
			 sizeof(cwd)) +
	      1;
	abi_unlock(c->p, &c->p->lock);
	if (c->a[1] < len)
		return -LINUX_ERANGE;
	return abi_user_put(c->p, c->a[0], cwd, len) ? -LINUX_EFAULT : (s64)len;
}

/* getcwd(2) contains no links, and a link that changes later does not move the
 * process. */
static s64 set_cwd(struct abi_call *c, const char *path)
{
	char real[ABI_PATH_MAX];
	u32 flags;
	s64 error = abi_path_folder(c, path, real, &flags);

	if (error >= 0)
		error = abi_name_run(
			c, (struct abi_path_op){.verb = ABI_PATH_ACCESS,
						.mode = 1,
						.path = real});
	if (error < 0)
		return error;
	abi_lock(c->p, &c->p->lock);
	abi_strcpy(abi_cwd(c->p), real, ABI_PATH_MAX);
	abi_unlock(c->p, &c->p->lock);
	return 0;
}

s64 abi_sys_chdir(struct abi_call *c)
{
	char path[ABI_PATH_MAX];
	u32 flags;
	s64 error = abi_path_at(c, (u64)ABI_AT_FDCWD, c->a[0], path, &flags);

	return error < 0 ? error : set_cwd(c, path);
}

s64 abi_sys_fchdir(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 error;

	if (!d)
		return -LINUX_EBADF;
	if (d->type != ABI_S_IFDIR)
		error = -LINUX_ENOTDIR;
	else
		error = set_cwd(c, d->path);
	abi_desc_put(c->p, d);
	return error;
}

/* Changing directories --------------------------------------------------- */

static s64 make_dir(struct abi_call *c, u64 dirfd, u64 name, u32 mode)
{
	struct abi_path_op op = {.verb = ABI_PATH_MKDIR,
				 .mode = mode & 01777 & ~*abi_umask(c->p)};

	return abi_path_run(c, dirfd, name, &op);
}

s64 abi_sys_mkdir(struct abi_call *c)
{
	return make_dir(c, (u64)ABI_AT_FDCWD, c->a[0], (u32)c->a[1]);
}

s64 abi_sys_mkdirat(struct abi_call *c)
{
	return make_dir(c, c->a[0], c->a[1], (u32)c->a[2]);
}

/* mknod(2): there are no devices of the guest's own, and bind creates
 * sockets. */
static s64 make_node(struct abi_call *c, u64 dirfd, u64 name, u32 mode)
{
	struct abi_path_op op = {.verb = ABI_PATH_MKFIFO,
				 .mode = mode & 07777 & ~*abi_umask(c->p)};
	const char *why = "mknod refused (EPERM): devices and sockets are not "
			  "made so; mkfifo and files work";
	s64 n = -LINUX_EPERM;

	switch (mode & ABI_S_IFMT) {
	case 0:
	case ABI_S_IFREG:
		n = open_at(c, dirfd, name,
			    ABI_O_CREAT | ABI_O_EXCL | ABI_O_WRONLY, mode);
		return n < 0 ? n : abi_fd_close(c->p, (u32)n);
	case ABI_S_IFDIR:
		return n;
	case ABI_S_IFIFO:
		n = abi_path_run(c, dirfd, name, &op);
		why = "mkfifo refused (EPERM): this host's folders hold no "
		      "FIFOs";
		break;
	case ABI_S_IFCHR:
	case ABI_S_IFBLK:
	case ABI_S_IFSOCK:
		break;
	default:
		return -LINUX_EINVAL;
	}
	if (n == -LINUX_EPERM)
		abi_log_once(c->p, &c->p->fds.said_node, why);
	return n;
}

s64 abi_sys_mknod(struct abi_call *c)
{
	return make_node(c, (u64)ABI_AT_FDCWD, c->a[0], (u32)c->a[1]);
}

s64 abi_sys_mknodat(struct abi_call *c)
{
	return make_node(c, c->a[0], c->a[1], (u32)c->a[2]);
}

/* unlink(2) and rmdir(2) of a name that ends in a slash, "." or "..". */
static s64 check_removal(struct abi_call *c, const char *path, u32 flags,
			 u32 dir)
{
	s64 error = check_end(c, path, flags, ABI_PATH_LSTAT);

	if (error || !(flags & ABI_PATH_MUST_DIR))
		return error;
	if (!dir)
		return -LINUX_EISDIR;
	if (flags & ABI_PATH_DOT)
		return -LINUX_EINVAL;
	return flags & ABI_PATH_DOTS ? -LINUX_ENOTEMPTY : 0;
}

static s64 remove_at(struct abi_call *c, u64 dirfd, u64 name, u32 dir)
{
	struct abi_path_op op = {.verb = dir ? ABI_PATH_RMDIR
					     : ABI_PATH_UNLINK};
	char path[ABI_PATH_MAX];
	u32 flags;
	s64 error = abi_path_at(c, dirfd, name, path, &flags);

	if (error < 0)
		return error;
	error = check_removal(c, path, flags, dir);
	if (error)
		return error;
	op.path = path;
	return abi_name_run(c, op);
}

s64 abi_sys_unlink(struct abi_call *c)
{
	return remove_at(c, (u64)ABI_AT_FDCWD, c->a[0], 0);
}

s64 abi_sys_rmdir(struct abi_call *c)
{
	return remove_at(c, (u64)ABI_AT_FDCWD, c->a[0], 1);
}

s64 abi_sys_unlinkat(struct abi_call *c)
{
	if ((u32)c->a[2] & ~(u32)ABI_AT_REMOVEDIR)
		return -LINUX_EINVAL;
	return remove_at(c, c->a[0], c->a[1], (u32)c->a[2]);
}

/* Only folders have a slash behind their name, in both names of a rename. */
static s64 check_rename(struct abi_call *c, const struct abi_path_op *op,
			u32 from, u32 to)
{
	s64 error = check_dots(c, op->path, from);

	if (!error)
		error = check_dots(c, op->path2, to);
	if (!error && (from | to) & (ABI_PATH_DOT | ABI_PATH_DOTS))
		error = -LINUX_EBUSY;
	return error ? error
		     : check_end(c, op->path, from | to, ABI_PATH_LSTAT);
}

static s64 check_two(struct abi_call *c, const struct abi_path_op *op, u32 from,
		     u32 to)
{
	s64 error;

	if (op->verb == ABI_PATH_RENAME)
		return check_rename(c, op, from, to);
	error = check_end(c, op->path, from, ABI_PATH_STAT);
	if (!error)
		error = check_new_end(c, op->path2, to);
	if (!error && from & ABI_PATH_MUST_DIR) /* link(2) of a folder */
		error = check_end(c, op->path2, ABI_PATH_MUST_DIR,
				  ABI_PATH_LSTAT) == -LINUX_ENOENT
				? -LINUX_EPERM
				: -LINUX_EEXIST;
	return error;
}

/* RENAME or LINK of `path`, which ended as from_end says, to the name at `to`.
 */
static s64 move_name(struct abi_call *c, struct abi_path_op op, u32 from_end,
		     u64 to_dir, u64 to)
{
	char path2[ABI_PATH_MAX];
	u32 to_end;
	s64 error = abi_path_at(c, to_dir, to, path2, &to_end);

	op.path2 = path2;
	if (error >= 0)
		error = check_two(c, &op, from_end, to_end);
	return error < 0 ? error : abi_name_run(c, op);
}

static s64 two_names(struct abi_call *c, u64 from_dir, u64 from, u64 to_dir,
		     u64 to, struct abi_path_op op)
{
	char path[ABI_PATH_MAX];
	u32 end;
	s64 error = abi_path_at(c, from_dir, from, path, &end);

	op.path = path;
	return error < 0 ? error : move_name(c, op, end, to_dir, to);
}

#define NAMES(verb_, ...) ((struct abi_path_op){.verb = verb_, ##__VA_ARGS__})

s64 abi_sys_rename(struct abi_call *c)
{
	return two_names(c, (u64)ABI_AT_FDCWD, c->a[0], (u64)ABI_AT_FDCWD,
			 c->a[1], NAMES(ABI_PATH_RENAME));
}

s64 abi_sys_renameat(struct abi_call *c)
{
	return two_names(c, c->a[0], c->a[1], c->a[2], c->a[3],
			 NAMES(ABI_PATH_RENAME));
}

#define RENAME_NOREPLACE 1u
#define RENAME_EXCHANGE 2u
#define RENAME_WHITEOUT 4u

s64 abi_sys_renameat2(struct abi_call *c)
{
	u32 flags = (u32)c->a[4];
	s64 n;

	if (flags > (RENAME_NOREPLACE | RENAME_WHITEOUT) ||
	    (flags & RENAME_EXCHANGE && flags != RENAME_EXCHANGE))
		return -LINUX_EINVAL;
	n = two_names(c, c->a[0], c->a[1], c->a[2], c->a[3],
		      NAMES(ABI_PATH_RENAME, .mode = flags));
	if (n == -LINUX_EINVAL && flags)
		return abi_refuse(c->p, ABI_REFUSE_RENAME, n);
	return n;
}

s64 abi_sys_link(struct abi_call *c)
{
	return two_names(c, (u64)ABI_AT_FDCWD, c->a[0], (u64)ABI_AT_FDCWD,
			 c->a[1], NAMES(ABI_PATH_LINK));
}

/* Whether `path` is that of a descriptor whose file has no name. */
static int is_unnamed(struct abi_proc *p, const char *path)
{
	s64 fd = abi_synth_number(p, path);
	struct abi_desc *d = fd < 0 ? 0 : abi_desc_get(p, (u64)fd);
	int yes;

	if (!d)
		return 0;
	yes = *d->path == '/' && !abi_file_is_named(d);
	abi_desc_put(p, d);
	return yes;
}

s64 abi_sys_linkat(struct abi_call *c)
{
	char path[ABI_PATH_MAX];
	u32 end;
	s64 error;

	if ((u32)c->a[4] & ~(u32)(ABI_AT_SYMLINK_FOLLOW | ABI_AT_EMPTY_PATH))
		return -LINUX_EINVAL;
	if ((u32)c->a[4] & ABI_AT_EMPTY_PATH)
		return abi_refuse(c->p, ABI_REFUSE_EMPTY_PATH, -LINUX_ENOENT);
	error = abi_path_at(c, c->a[0], c->a[1], path, &end);
	if (error >= 0 && (u32)c->a[4] && is_unnamed(c->p, path))
		return abi_refuse(c->p, ABI_REFUSE_EMPTY_PATH, -LINUX_ENOENT);
	if (error >= 0 && (u32)c->a[4])
		error = abi_path_last(c, path, &end);
	if (error < 0)
		return error;
	return move_name(c, NAMES(ABI_PATH_LINK, .path = path), end, c->a[2],
			 c->a[3]);
}

static s64 make_link(struct abi_call *c, u64 text, u64 dirfd, u64 name)
{
	char target[ABI_PATH_MAX];
	struct abi_path_op op = {.verb = ABI_PATH_SYMLINK, .path2 = target};
	s64 n = abi_user_string(c->p, target, sizeof(target), text,
				-LINUX_ENAMETOOLONG);

	if (n < 0)
		return n;
	return n ? abi_path_run(c, dirfd, name, &op) : -LINUX_ENOENT;
}

s64 abi_sys_symlink(struct abi_call *c)
{
	return make_link(c, c->a[0], (u64)ABI_AT_FDCWD, c->a[1]);
}

s64 abi_sys_symlinkat(struct abi_call *c)
{
	return make_link(c, c->a[0], c->a[1], c->a[2]);
}

static s64 read_link(struct abi_call *c, u64 dirfd, u64 name, u64 to, s32 size)
{
	char path[ABI_PATH_MAX], text[ABI_PATH_MAX];
	struct abi_path_op op = {.verb = ABI_PATH_READLINK,
				 .path = path,
				 .buf = text,
				 .len = sizeof(text)};
	u32 flags;
	s64 n;

	if (size <= 0)
		return -LINUX_EINVAL;
	n = abi_path_at(c, dirfd, name, path, &flags);
	if (n < 0)
		return n;
	if (flags & ABI_PATH_MUST_DIR) {
		n = check_end(c, path, flags, ABI_PATH_STAT);
		return n ? n : -LINUX_EINVAL;
	}
	n = abi_name_run(c, op);
	if (n > size)
		n = size;
	if (n > 0 && abi_user_put(c->p, to, text, (u64)n))
		return -LINUX_EFAULT;
	return n;
}

s64 abi_sys_readlink(struct abi_call *c)
{
	return read_link(c, (u64)ABI_AT_FDCWD, c->a[0], c->a[1], (s32)c->a[2]);
}

s64 abi_sys_readlinkat(struct abi_call *c)
{
	return read_link(c, c->a[0], c->a[1], c->a[2], (s32)c->a[3]);
}

s64 abi_sys_truncate(struct abi_call *c)
{
	struct abi_path_op op = {.verb = ABI_PATH_TRUNCATE, .len = c->a[1]};
	struct abi_stat st;
	struct abi_path_op stat = {.verb = ABI_PATH_STAT, .stat = &st};
	s64 error = 0;

	if ((s64)c->a[1] < 0)
		return -LINUX_EINVAL;
	if (!abi_size_limit_allows(c, op.len)) {
		error = abi_path_run(c, (u64)ABI_AT_FDCWD, c->a[0], &stat);
		if (!error)
			error = abi_size_limit_grow(c, st.size, op.len);
	}
	if (error)
		return error;
	return abi_path_run(c, (u64)ABI_AT_FDCWD, c->a[0], &op);
}

/* access ----------------------------------------------------------------- */

static s64 access_at(struct abi_call *c, u64 dirfd, u64 name, u32 mode)
{
	char path[ABI_PATH_MAX];
	u32 flags;
	s64 error;

	if (mode & ~7u)
		return -LINUX_EINVAL;
	error = abi_path_at(c, dirfd, name, path, &flags);
	if (error >= 0)
		error = check_end(c, path, flags, ABI_PATH_STAT);
	if (error < 0)
		return error;
	return abi_name_run(c, (struct abi_path_op){.verb = ABI_PATH_ACCESS,
						    .path = path,
						    .mode = mode});
}

s64 abi_sys_access(struct abi_call *c)
{
	return access_at(c, (u64)ABI_AT_FDCWD, c->a[0], (u32)c->a[1]);
}

s64 abi_sys_faccessat(struct abi_call *c)
{
	return access_at(c, c->a[0], c->a[1], (u32)c->a[2]);
}

s64 abi_sys_faccessat2(struct abi_call *c)
{
	u32 flags = (u32)c->a[3];

	if (flags & ~(u32)(ABI_AT_EACCESS | ABI_AT_SYMLINK_NOFOLLOW |
			   ABI_AT_EMPTY_PATH))
		return -LINUX_EINVAL;
	if (flags & ABI_AT_EMPTY_PATH)
		return abi_refuse(c->p, ABI_REFUSE_EMPTY_PATH, -LINUX_EINVAL);
	return access_at(c, c->a[0], c->a[1], (u32)c->a[2]);
}
