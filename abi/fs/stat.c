// SPDX-License-Identifier: MIT
/*
 * Owns attributes of files: stat in its forms, modes, owners, times and file
 * systems, and the layouts in which guests receive them. No state.
 */
#include "stat.h"
#include "desc.h"
#include "names.h"
#include "open.h"
#include "ops.h"
#include "path.h"
#include "procfs.h"
#include "ring.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe

static struct abi_timespec split_ns(s64 ns)
{
	struct abi_timespec t = {ns / 1000000000, ns % 1000000000};

	if (t.nsec < 0) {
		t.nsec += 1000000000;
		t.sec--;
	}
	return t;
}

static s64 put_stat(struct abi_proc *p, u64 gaddr, const struct abi_stat *st)
{
	struct abi_linux_stat out = {
		.dev = st->dev,
		.ino = st->ino,
		.nlink = st->nlink,
		.mode = st->mode,
		.uid = st->uid,
		.gid = st->gid,
		.rdev = st->rdev,
		.size = (s64)st->size,
		.blksize = (s64)st->blksize,
		.blocks = (s64)st->blocks,
		.atime = split_ns(st->atime_ns),
		.mtime = split_ns(st->mtime_ns),
		.ctime = split_ns(st->ctime_ns),
	};

	return ABI_PUT(p, gaddr, &out);
}

/* Both ends of a pipe are one inode. */
static struct abi_unnamed *unnamed_of(struct abi_proc *p, struct abi_desc *d)
{
	if (d->kind == ABI_DESC_PIPE)
		return &abi_ring_at(p, d->in ? d->in : d->out)->unnamed;
	return &d->unnamed;
}

void abi_stat_unnamed(struct abi_proc *p, struct abi_desc *d,
		      struct abi_stat *st)
{
	const struct abi_unnamed *set = unnamed_of(p, d);

	abi_memset(st, 0, sizeof(*st));
	st->dev = 0xab1;
	st->ino = abi_desc_index(p, d) + 1;
	st->nlink = 1;
	st->mode = d->type | (d->type == ABI_S_IFSOCK ? 0777 : 0600);
	if (set->has_mode)
		st->mode = d->type | set->mode;
	st->atime_ns = set->times[0];
	st->mtime_ns = set->times[1];
	st->uid = p->info.uid;
	st->gid = p->info.gid;
	st->blksize = 4096;
}

/*
 * fchmod and futimens of files that the host does not know. Anonymous inodes
 * have no attributes (anon_inode_setattr of Linux); files of /proc and devices
 * keep their modes.
 */
static s64 set_unnamed(struct abi_proc *p, struct abi_desc *d,
		       const struct abi_file_op *op)
{
	struct abi_unnamed *to = unnamed_of(p, d);
	u32 i, fs = abi_desc_ops(d)->fs_type;

	if (fs == ABI_FS_ANON_INODE)
		return -LINUX_ENOTSUP;
	if (fs != ABI_FS_PIPE && fs != ABI_FS_SOCK)
		return op->verb == ABI_FILE_CHMOD ? -LINUX_EPERM : 0;
	abi_lock(p, &d->lock);
	if (op->verb == ABI_FILE_CHMOD) {
		to->mode = op->mode;
		to->has_mode = 1;
	}
	for (i = 0; i < 2 && op->verb == ABI_FILE_UTIMENS; i++)
		if (op->times[i] != ABI_TIME_OMIT)
			to->times[i] = op->times[i];
	abi_unlock(p, &d->lock);
	return 0;
}

s64 abi_file_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	if (ops->stat)
		return ops->stat(c, d, st);
	abi_stat_unnamed(c->p, d, st);
	return 0;
}

/* The description itself, for fstat and AT_EMPTY_PATH. */
static s64 stat_fd(struct abi_call *c, u64 fd, struct abi_stat *st)
{
	struct abi_desc *d = abi_desc_get(c->p, fd);
	s64 error;

	if (!d)
		return -LINUX_EBADF;
	error = abi_file_stat(c, d, st);
	abi_desc_put(c->p, d);
	return error;
}

static s64 stat_path(struct abi_call *c, const char *path, u32 nofollow,
		     struct abi_stat *st)
{
	return abi_name_run(
		c, (struct abi_path_op){
			   .verb = nofollow ? ABI_PATH_LSTAT : ABI_PATH_STAT,
			   .path = path,
			   .stat = st,
		   });
}

static int is_empty(struct abi_call *c, u64 name)
{
	char first;

	return !name || (!abi_user_get(c->p, &first, name, 1) && !first);
}

static s64 stat_at(struct abi_call *c, u64 dirfd, u64 name, u32 flags,
		   struct abi_stat *st)
{
	char path[ABI_PATH_MAX];
	u32 path_flags;
	s64 error;

	if (flags & ABI_AT_EMPTY_PATH && is_empty(c, name) &&
	    (s32)dirfd != ABI_AT_FDCWD)
		return stat_fd(c, dirfd, st);
	if (flags & ABI_AT_EMPTY_PATH && is_empty(c, name)) {
		abi_lock(c->p, &c->p->lock);
		abi_strcpy(path, abi_cwd(c->p)[0] ? abi_cwd(c->p) : "/",
			   sizeof(path));
		abi_unlock(c->p, &c->p->lock);
		return stat_path(c, path, 0, st);
	}
	error = abi_path_at(c, dirfd, name, path, &path_flags);
	if (error < 0)
		return error;
	/* "link/" means what the link points to. */
	error = stat_path(c, path,
			  flags & ABI_AT_SYMLINK_NOFOLLOW &&
				  !(path_flags & ABI_PATH_MUST_DIR),
			  st);
	if (!error && path_flags & ABI_PATH_MUST_DIR &&
	    (st->mode & ABI_S_IFMT) != ABI_S_IFDIR)
		return -LINUX_ENOTDIR;
	return error;
}

static s64 stat_and_put(struct abi_call *c, u64 dirfd, u64 name, u64 to,
			u32 flags)
{
	struct abi_stat st;
	s64 error = stat_at(c, dirfd, name, flags, &st);

	return error ? error : put_stat(c->p, to, &st);
}

s64 abi_sys_stat(struct abi_call *c)
{
	return stat_and_put(c, (u64)ABI_AT_FDCWD, c->a[0], c->a[1], 0);
}

s64 abi_sys_lstat(struct abi_call *c)
{
	return stat_and_put(c, (u64)ABI_AT_FDCWD, c->a[0], c->a[1],
			    ABI_AT_SYMLINK_NOFOLLOW);
}

s64 abi_sys_fstat(struct abi_call *c)
{
	struct abi_stat st;
	s64 error = stat_fd(c, c->a[0], &st);

	return error ? error : put_stat(c->p, c->a[1], &st);
}

#define STAT_FLAGS                                                             \
	(ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_NO_AUTOMOUNT | ABI_AT_EMPTY_PATH)

s64 abi_sys_newfstatat(struct abi_call *c)
{
	if ((u32)c->a[3] & ~(u32)STAT_FLAGS)
		return -LINUX_EINVAL;
	return stat_and_put(c, c->a[0], c->a[1], c->a[2], (u32)c->a[3]);
}

static struct abi_statx_time statx_time(s64 ns)
{
	struct abi_timespec t = split_ns(ns);

	return (struct abi_statx_time){t.sec, (u32)t.nsec, 0};
}

/* Device numbers as glibc's device_major() and device_minor() decode them.
 */
static u32 device_major(u64 dev)
{
	return (u32)((dev >> 8 & 0xfff) | (dev >> 32 & ~0xfffull));
}

static u32 device_minor(u64 dev)
{
	return (u32)((dev & 0xff) | (dev >> 12 & ~0xffull));
}

s64 abi_sys_statx(struct abi_call *c)
{
	struct abi_linux_statx out = {.mask = 0x7ff};
	u32 flags = (u32)c->a[2];
	struct abi_stat st;
	s64 error;

	if (flags & ~(u32)(STAT_FLAGS | ABI_AT_STATX_SYNC) ||
	    (u32)c->a[3] & 0x80000000u)
		return -LINUX_EINVAL;
	error = stat_at(c, c->a[0], c->a[1], flags, &st);
	if (error)
		return error;
	out.blksize = (u32)st.blksize;
	out.nlink = (u32)st.nlink;
	out.uid = st.uid;
	out.gid = st.gid;
	out.mode = (u16)st.mode;
	out.ino = st.ino;
	out.size = st.size;
	out.blocks = st.blocks;
	out.atime = statx_time(st.atime_ns);
	out.ctime = statx_time(st.ctime_ns);
	out.mtime = statx_time(st.mtime_ns);
	out.rdev_major = device_major(st.rdev);
	out.rdev_minor = device_minor(st.rdev);
	out.dev_major = device_major(st.dev);
	out.dev_minor = device_minor(st.dev);
	return ABI_PUT(c->p, c->a[4], &out);
}

/* By descriptor ---------------------------------------------------------- */

/* As simple_statfs of Linux: a file system without blocks. */
static s64 made_statfs(const struct abi_desc *d, struct abi_statfs *fs)
{
	*fs = (struct abi_statfs){.type = abi_desc_ops(d)->fs_type,
				  .bsize = SKEP_PAGE_SIZE,
				  .namelen = 255};
	return fs->type ? 0 : -LINUX_ENOSYS;
}

int abi_file_is_named(const struct abi_desc *d)
{
	static const char end[] = " (deleted)";
	u64 len = abi_strlen(d->path);

	return *d->path == '/' &&
	       (len < sizeof(end) ||
		!abi_streq(d->path + len - sizeof(end) + 1, end));
}

/* By the host if it has the file open, or as a file that it does not know. */
static s64 file_control(struct abi_call *c, struct abi_desc *d,
			struct abi_file_op *op)
{
	if (abi_desc_ops(d)->control)
		return abi_desc_ops(d)->control(c, d, op);
	return op->verb == ABI_FILE_STATFS ? made_statfs(d, op->statfs)
					   : set_unnamed(c->p, d, op);
}

s64 abi_file_run(struct abi_call *c, struct abi_desc *d,
		 const struct abi_path_op *op)
{
	struct abi_file_op by = {.mode = op->mode,
				 .len = op->len,
				 .times = {op->times[0], op->times[1]},
				 .statfs = op->statfs};
	int named = abi_file_is_named(d);

	if (op->verb == ABI_PATH_STAT)
		return abi_file_stat(c, d, op->stat);
	if (op->verb == ABI_PATH_ACCESS)
		return named ? ABI_FILE_BY_NAME : 0;
	if (op->verb == ABI_PATH_TRUNCATE) {
		by.verb = ABI_FILE_TRUNCATE;
		if (!named && !abi_desc_ops(d)->regular)
			return -LINUX_EINVAL;
		return named ? ABI_FILE_BY_NAME : file_control(c, d, &by);
	}
	/* What was opened with O_PATH has no such calls. */
	if (named &&
	    (abi_desc_flags(d) & ABI_O_PATH || !abi_desc_ops(d)->control))
		return ABI_FILE_BY_NAME;
	by.verb = op->verb == ABI_PATH_CHMOD	 ? ABI_FILE_CHMOD
		  : op->verb == ABI_PATH_UTIMENS ? ABI_FILE_UTIMENS
						 : ABI_FILE_STATFS;
	return file_control(c, d, &by);
}

/* File systems ----------------------------------------------------------- */

static s64 put_statfs(struct abi_proc *p, u64 gaddr,
		      const struct abi_statfs *fs)
{
	struct abi_linux_statfs out = {
		.type = fs->type,
		.bsize = fs->bsize,
		.blocks = fs->blocks,
		.bfree = fs->bfree,
		.bavail = fs->bavail,
		.files = fs->files,
		.ffree = fs->ffree,
		.namelen = fs->namelen,
		.frsize = fs->bsize,
	};

	return ABI_PUT(p, gaddr, &out);
}

s64 abi_sys_statfs(struct abi_call *c)
{
	struct abi_statfs fs;
	struct abi_path_op op = {.verb = ABI_PATH_STATFS, .statfs = &fs};
	s64 error = abi_path_run(c, (u64)ABI_AT_FDCWD, c->a[0], &op);

	return error < 0 ? error : put_statfs(c->p, c->a[1], &fs);
}

s64 abi_sys_fstatfs(struct abi_call *c)
{
	struct abi_statfs fs;
	struct abi_file_op op = {.verb = ABI_FILE_STATFS, .statfs = &fs};
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 error;

	if (!d)
		return -LINUX_EBADF;
	error = file_control(c, d, &op);
	abi_desc_put(c->p, d);
	return error < 0 ? error : put_statfs(c->p, c->a[1], &fs);
}

/* Modes ------------------------------------------------------------------ */

static s64 mode_at(struct abi_call *c, u64 dirfd, u64 name, u32 mode)
{
	struct abi_path_op op = {.verb = ABI_PATH_CHMOD, .mode = mode & 07777};

	return abi_path_run(c, dirfd, name, &op);
}

s64 abi_sys_chmod(struct abi_call *c)
{
	return mode_at(c, (u64)ABI_AT_FDCWD, c->a[0], (u32)c->a[1]);
}

s64 abi_sys_fchmodat(struct abi_call *c)
{
	return mode_at(c, c->a[0], c->a[1], (u32)c->a[2]);
}

static s64 mode_of(struct abi_call *c, u64 fd, u32 mode)
{
	struct abi_file_op op = {.verb = ABI_FILE_CHMOD, .mode = mode & 07777};
	struct abi_desc *d = abi_desc_get(c->p, fd);
	s64 error = 0;

	if (!d)
		return -LINUX_EBADF;
	if (abi_desc_flags(d) & ABI_O_PATH)
		error = -LINUX_EBADF;
	else
		error = file_control(c, d, &op);
	abi_desc_put(c->p, d);
	return error;
}

/* A link has no mode of its own: EOPNOTSUPP with NOFOLLOW. */
s64 abi_sys_fchmodat2(struct abi_call *c)
{
	u32 flags = (u32)c->a[3];
	struct abi_stat st;
	struct abi_path_op look = {.verb = ABI_PATH_LSTAT, .stat = &st};
	s64 error;
	char first;

	if (flags & ~(u32)(ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_EMPTY_PATH))
		return -LINUX_EINVAL;
	if (flags & ABI_AT_EMPTY_PATH) {
		if (abi_user_get(c->p, &first, c->a[1], 1))
			return -LINUX_EFAULT;
		if (!first)
			return mode_of(c, c->a[0], (u32)c->a[2]);
	}
	if (flags & ABI_AT_SYMLINK_NOFOLLOW) {
		error = abi_path_run(c, c->a[0], c->a[1], &look);
		if (error < 0)
			return error;
		if ((st.mode & ABI_S_IFMT) == ABI_S_IFLNK)
			return -LINUX_EOPNOTSUPP;
	}
	return mode_at(c, c->a[0], c->a[1], (u32)c->a[2]);
}

s64 abi_sys_fchmod(struct abi_call *c)
{
	return mode_of(c, c->a[0], (u32)c->a[1]);
}

/* Owners: there is one user, so only a change to itself is allowed. */
static s64 change_owner(struct abi_call *c, const struct abi_stat *st, u32 uid,
			u32 gid)
{
	int same_uid = uid == ~0u || uid == st->uid || uid == c->p->info.uid;
	int same_gid = gid == ~0u || gid == st->gid || gid == c->p->info.gid;

	if (same_uid && same_gid)
		return 0;
	return c->p->info.uid
		       ? -LINUX_EPERM
		       : abi_refuse(c->p, ABI_REFUSE_CAPABILITY, -LINUX_EPERM);
}

static s64 owner_at(struct abi_call *c, u64 dirfd, u64 name, const u64 *ids,
		    u32 flags)
{
	struct abi_stat st;
	s64 error = stat_at(c, dirfd, name, flags, &st);

	return error ? error : change_owner(c, &st, (u32)ids[0], (u32)ids[1]);
}

s64 abi_sys_chown(struct abi_call *c)
{
	return owner_at(c, (u64)ABI_AT_FDCWD, c->a[0], c->a + 1, 0);
}

s64 abi_sys_lchown(struct abi_call *c)
{
	return owner_at(c, (u64)ABI_AT_FDCWD, c->a[0], c->a + 1,
			ABI_AT_SYMLINK_NOFOLLOW);
}

s64 abi_sys_fchownat(struct abi_call *c)
{
	return owner_at(c, c->a[0], c->a[1], c->a + 2, (u32)c->a[4]);
}

s64 abi_sys_fchown(struct abi_call *c)
{
	struct abi_stat st;
	s64 error = stat_fd(c, c->a[0], &st);

	return error ? error : change_owner(c, &st, (u32)c->a[1], (u32)c->a[2]);
}

/* Times ------------------------------------------------------------------ */

static void set_now(struct abi_call *c, s64 times[2])
{
	times[0] = times[1] = c->p->host->clock(ABI_CLOCK_REALTIME);
}

static s64 times_on_fd(struct abi_call *c, u64 fd, const s64 times[2])
{
	struct abi_file_op op = {.verb = ABI_FILE_UTIMENS,
				 .times = {times[0], times[1]}};
	struct abi_desc *d = abi_desc_get(c->p, fd);
	s64 error;

	if (!d)
		return -LINUX_EBADF;
	error = file_control(c, d, &op);
	abi_desc_put(c->p, d);
	return error;
}

static s64 times_at(struct abi_call *c, u64 dirfd, u64 name, const s64 times[2],
		    u32 nofollow)
{
	struct abi_path_op op = {.verb = ABI_PATH_UTIMENS,
				 .mode = nofollow,
				 .times = {times[0], times[1]}};

	return abi_path_run(c, dirfd, name, &op);
}

/* A time that does not fit into 64 bits of ns is clamped. */
static s64 to_ns(s64 sec, s64 nsec)
{
	s64 ns;

	if (__builtin_mul_overflow(sec, 1000000000ll, &ns) ||
	    __builtin_add_overflow(ns, nsec, &ns) || ns <= ABI_TIME_OMIT)
		return sec < 0 ? ABI_TIME_OMIT + 1 : (s64)(~0ull >> 1);
	return ns;
}

static s64 one_time(struct abi_call *c, const struct abi_timespec *t, s64 *ns)
{
	if (t->nsec == UTIME_OMIT)
		*ns = ABI_TIME_OMIT;
	else if (t->nsec == UTIME_NOW)
		*ns = c->p->host->clock(ABI_CLOCK_REALTIME);
	else if (t->nsec < 0 || t->nsec >= 1000000000)
		return -LINUX_EINVAL;
	else
		*ns = to_ns(t->sec, t->nsec);
	return 0;
}

s64 abi_sys_utimensat(struct abi_call *c)
{
	struct abi_timespec t[2];
	s64 times[2], error = 0;

	if ((u32)c->a[3] & ~(u32)(ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_EMPTY_PATH))
		return -LINUX_EINVAL;
	set_now(c, times);
	if (c->a[2]) {
		if (ABI_GET(c->p, &t, c->a[2]))
			return -LINUX_EFAULT;
		error = one_time(c, &t[0], &times[0]);
		if (!error)
			error = one_time(c, &t[1], &times[1]);
	}
	if (error)
		return error;
	if (!c->a[1] ||
	    ((u32)c->a[3] & ABI_AT_EMPTY_PATH && is_empty(c, c->a[1])))
		return times_on_fd(c, c->a[0], times);
	return times_at(c, c->a[0], c->a[1], times,
			!!((u32)c->a[3] & ABI_AT_SYMLINK_NOFOLLOW));
}

static s64 timevals_at(struct abi_call *c, u64 dirfd, u64 name, u64 gaddr)
{
	struct abi_timeval t[2];
	s64 times[2];
	u32 i;

	set_now(c, times);
	if (gaddr && ABI_GET(c->p, &t, gaddr))
		return -LINUX_EFAULT;
	for (i = 0; gaddr && i < 2; i++) {
		if (t[i].usec < 0 || t[i].usec >= 1000000)
			return -LINUX_EINVAL;
		times[i] = to_ns(t[i].sec, t[i].usec * 1000);
	}
	return times_at(c, dirfd, name, times, 0);
}

s64 abi_sys_utimes(struct abi_call *c)
{
	return timevals_at(c, (u64)ABI_AT_FDCWD, c->a[0], c->a[1]);
}

s64 abi_sys_futimesat(struct abi_call *c)
{
	return timevals_at(c, c->a[0], c->a[1], c->a[2]);
}

s64 abi_sys_utime(struct abi_call *c)
{
	s64 t[2], times[2];

	set_now(c, times);
	if (c->a[1]) {
		if (ABI_GET(c->p, &t, c->a[1]))
			return -LINUX_EFAULT;
		times[0] = to_ns(t[0], 0);
		times[1] = to_ns(t[1], 0);
	}
	return times_at(c, (u64)ABI_AT_FDCWD, c->a[0], times, 0);
}
