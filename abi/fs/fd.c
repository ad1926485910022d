// SPDX-License-Identifier: MIT
/*
 * Owns the numbers and the counts of descriptions, both under fds->lock. What
 * a description holds is given back by abi_desc_put, outside of that lock.
 */
#include "fd.h"
#include "filelock.h"
#include "ops.h"
#include "abi/include/errno.h"
#include "abi/include/mem.h"
#include "abi/poll/epoll.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

int abi_fds_init(struct abi_proc *p)
{
	p->fds.high = 0;
	return 0;
}

u32 abi_desc_index(const struct abi_proc *p, const struct abi_desc *d)
{
	return (u32)(d - p->fds.desc);
}

struct abi_desc *abi_desc_get(struct abi_proc *p, u64 fd)
{
	struct abi_desc *d = 0;

	/* Linux takes int: the upper half of the register is not looked at. */
	fd = (u32)fd;
	if (fd >= ABI_FD_MAX)
		return 0;
	abi_lock(p, &p->fds.lock);
	if (p->fds.slot[fd].desc) {
		d = &p->fds.desc[p->fds.slot[fd].desc - 1];
		d->refs++;
	}
	abi_unlock(p, &p->fds.lock);
	return d;
}

void abi_desc_hold(struct abi_proc *p, struct abi_desc *d)
{
	abi_lock(p, &p->fds.lock);
	d->refs++;
	abi_unlock(p, &p->fds.lock);
}

/* Nothing refers to it any more, and it is not free yet: it is all ours. */
static void release_desc(struct abi_proc *p, struct abi_desc *d)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	if (ops->handle && abi_filelock_park(p, d))
		return;
	if (ops->release)
		ops->release(p, d);
	abi_lock(p, &p->fds.lock);
	d->kind = ABI_DESC_FREE;
	abi_unlock(p, &p->fds.lock);
}

void abi_desc_put(struct abi_proc *p, struct abi_desc *d)
{
	u32 last;

	abi_lock(p, &p->fds.lock);
	last = !--d->refs;
	abi_unlock(p, &p->fds.lock);
	if (last)
		release_desc(p, d);
}

static void reset_desc(struct abi_desc *d, u32 kind, u32 flags)
{
	/* path is long and mostly never used: only its start is cleared. */
	abi_memset(d, 0, (u64)((u8 *)d->path - (u8 *)d));
	d->path[0] = 0;
	d->refs = 1;
	d->kind = kind;
	d->flags = flags;
	d->handle = -1;
}

struct abi_desc *abi_desc_new(struct abi_proc *p, u32 kind, u32 flags)
{
	struct abi_fds *fds = &p->fds;
	struct abi_desc *d = 0;
	u32 i;

	abi_lock(p, &fds->lock);
	for (i = 0; i < ABI_DESC_MAX && !d; i++) {
		if (fds->desc[i].kind != ABI_DESC_FREE)
			continue;
		d = &fds->desc[i];
		reset_desc(d, kind, flags);
		if (i >= fds->high)
			fds->high = i + 1;
	}
	abi_unlock(p, &fds->lock);
	return d;
}

/* Numbers from the limit RLIMIT_NOFILE on are never given out. */
static u32 number_limit(const struct abi_proc *p)
{
	u64 cur = p->limit[7].cur;

	return cur && cur < ABI_FD_MAX ? (u32)cur : ABI_FD_MAX;
}

static s64 lowest_free(struct abi_proc *p, u32 least)
{
	u32 fd, limit = number_limit(p);

	for (fd = least; fd < limit; fd++)
		if (!p->fds.slot[fd].desc)
			return fd;
	return -ABI_EMFILE;
}

static void fill_slot(struct abi_proc *p, u32 fd, struct abi_desc *d,
		      u32 cloexec)
{
	p->fds.slot[fd].desc = (u16)(abi_desc_index(p, d) + 1);
	p->fds.slot[fd].cloexec = !!cloexec;
	d->numbers++;
}

s64 abi_desc_install(struct abi_proc *p, struct abi_desc *d, u32 least,
		     u32 cloexec)
{
	s64 fd;

	abi_lock(p, &p->fds.lock);
	fd = lowest_free(p, least);
	if (fd >= 0)
		fill_slot(p, (u32)fd, d, cloexec);
	abi_unlock(p, &p->fds.lock);
	if (fd < 0)
		abi_desc_put(p, d);
	return fd;
}

/* Empties a slot; the caller holds the lock and finishes with after_take. */
static struct abi_desc *empty_slot(struct abi_proc *p, u32 fd, u32 *gone)
{
	struct abi_slot *slot = &p->fds.slot[fd];
	struct abi_desc *d;

	*gone = 0;
	if (!slot->desc)
		return 0;
	d = &p->fds.desc[slot->desc - 1];
	slot->desc = 0;
	slot->cloexec = 0;
	*gone = !--d->numbers;
	return d;
}

/*
 * With its last number a description leaves all interest lists, and a thread
 * that sleeps on it for epoll wakes up and lets go of it: a socket must close
 * now, not when some event comes.
 */
static void after_take(struct abi_proc *p, struct abi_desc *d, u32 gone)
{
	if (!d)
		return;
	abi_filelock_close(p, d);
	if (gone)
		abi_epoll_forget(p, d);
	abi_desc_put(p, d);
}

int abi_fd_close(struct abi_proc *p, u32 fd)
{
	struct abi_desc *d;
	u32 gone;

	if (fd >= ABI_FD_MAX)
		return -ABI_EBADF;
	abi_lock(p, &p->fds.lock);
	d = empty_slot(p, fd, &gone);
	abi_unlock(p, &p->fds.lock);
	after_take(p, d, gone);
	return d ? 0 : -ABI_EBADF;
}

void abi_fd_close_all(struct abi_proc *p)
{
	u32 fd;

	for (fd = 0; fd < ABI_FD_MAX; fd++)
		abi_fd_close(p, fd);
}

void abi_fds_exit(struct abi_proc *p)
{
	abi_fd_close_all(p);
}

/* dup2 and dup3: `to` becomes what `d` is; takes the reference over. */
static s64 replace_slot(struct abi_proc *p, struct abi_desc *d, u32 to,
			u32 cloexec)
{
	struct abi_desc *old;
	u32 gone;

	if (to >= number_limit(p)) {
		abi_desc_put(p, d);
		return -ABI_EBADF;
	}
	abi_lock(p, &p->fds.lock);
	old = empty_slot(p, to, &gone);
	fill_slot(p, to, d, cloexec);
	abi_unlock(p, &p->fds.lock);
	after_take(p, old, gone);
	return to;
}

u32 abi_desc_kind(u32 type)
{
	switch (type & ABI_S_IFMT) {
	case ABI_S_IFREG:
		return ABI_DESC_FILE;
	case ABI_S_IFDIR:
		return ABI_DESC_DIR;
	case ABI_S_IFBLK:
		return ABI_DESC_BLOCK;
	default:
		return ABI_DESC_STREAM;
	}
}

int abi_fd_attach(struct abi_proc *p, u32 fd, s32 handle, u32 type, u32 flags)
{
	u32 socket = (type & ABI_S_IFMT) == ABI_S_IFSOCK;
	u32 kind = socket ? ABI_DESC_SOCK : abi_desc_kind(type);
	struct abi_desc *d = abi_desc_new(p, kind, flags & ~ABI_O_CLOEXEC);
	s64 result;

	if (!d)
		return -ABI_ENFILE;
	d->handle = handle;
	d->type = type & ABI_S_IFMT;
	d->inherited = d->type == ABI_S_IFREG;
	d->sock_type = socket ? ABI_SOCK_STREAM : 0;
	abi_strcpy(d->path, "/dev/stdio", sizeof(d->path));
	result = replace_slot(p, d, fd, flags & ABI_O_CLOEXEC);
	return result < 0 ? (int)result : 0;
}

s64 abi_sys_close(struct abi_call *c)
{
	return abi_fd_close(c->p, (u32)c->a[0]);
}

#define CLOSE_RANGE_UNSHARE 2u
#define CLOSE_RANGE_CLOEXEC 4u

s64 abi_sys_close_range(struct abi_call *c)
{
	u32 first = (u32)c->a[0], last = (u32)c->a[1], how = (u32)c->a[2], fd;

	if (first > last || how & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC))
		return -ABI_EINVAL;
	for (fd = first; fd < ABI_FD_MAX && fd <= last; fd++) {
		if (!(how & CLOSE_RANGE_CLOEXEC)) {
			abi_fd_close(c->p, fd);
			continue;
		}
		abi_lock(c->p, &c->p->fds.lock);
		c->p->fds.slot[fd].cloexec = !!c->p->fds.slot[fd].desc;
		abi_unlock(c->p, &c->p->fds.lock);
	}
	return 0;
}

static s64 duplicate_fd(struct abi_proc *p, u64 fd, u32 least, u32 cloexec)
{
	struct abi_desc *d = abi_desc_get(p, fd);

	if (!d)
		return -ABI_EBADF;
	return abi_desc_install(p, d, least, cloexec);
}

s64 abi_sys_dup(struct abi_call *c)
{
	return duplicate_fd(c->p, c->a[0], 0, 0);
}

s64 abi_sys_dup2(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	if (!d)
		return -ABI_EBADF;
	if ((u32)c->a[0] == (u32)c->a[1]) {
		abi_desc_put(c->p, d);
		return (s64)(u32)c->a[1];
	}
	return replace_slot(c->p, d, (u32)c->a[1], 0);
}

s64 abi_sys_dup3(struct abi_call *c)
{
	struct abi_desc *d;

	if ((u32)c->a[0] == (u32)c->a[1] || (u32)c->a[2] & ~ABI_O_CLOEXEC)
		return -ABI_EINVAL;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -ABI_EBADF;
	return replace_slot(c->p, d, (u32)c->a[1], (u32)c->a[2]);
}

#define F_DUPFD 0
#define F_GETFD 1
#define F_SETFD 2
#define F_GETFL 3
#define F_SETFL 4
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
#define F_SETOWN 8
#define F_GETOWN 9
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#define F_DUPFD_CLOEXEC 1030
#define F_SETPIPE_SZ 1031
#define F_GETPIPE_SZ 1032

#define SETTABLE (ABI_O_APPEND | ABI_O_NONBLOCK | ABI_O_DIRECT | ABI_O_NOATIME)

static s64 slot_flags(struct abi_proc *p, u32 fd, s32 set)
{
	s64 result;

	abi_lock(p, &p->fds.lock);
	if (set >= 0)
		p->fds.slot[fd].cloexec = set & 1;
	result = p->fds.slot[fd].cloexec;
	abi_unlock(p, &p->fds.lock);
	return set >= 0 ? 0 : result;
}

static s64 set_status(struct abi_desc *d, u32 flags)
{
	u32 old = abi_desc_flags(d), fresh;

	do
		fresh = (old & ~(u32)SETTABLE) | (flags & SETTABLE);
	while (!__atomic_compare_exchange_n(
		&d->flags, &old, fresh, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

static s64 pipe_size(const struct abi_desc *d, u32 command, u64 arg)
{
	if (d->kind != ABI_DESC_PIPE)
		return -ABI_EBADF;
	if (command == F_SETPIPE_SZ && arg > ABI_RING_SIZE)
		return -ABI_EPERM;
	return ABI_RING_SIZE;
}

static s64 control_fd(struct abi_call *c, struct abi_desc *d)
{
	switch ((u32)c->a[1]) {
	case F_GETFD:
		return slot_flags(c->p, (u32)c->a[0], -1);
	case F_SETFD:
		return slot_flags(c->p, (u32)c->a[0], (s32)(c->a[2] & 1));
	case F_GETFL:
		return abi_desc_flags(d);
	case F_SETFL:
		return set_status(d, (u32)c->a[2]);
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return abi_filelock_control(c, d, (u32)c->a[1]);
	case F_SETPIPE_SZ:
	case F_GETPIPE_SZ:
		return pipe_size(d, (u32)c->a[1], c->a[2]);
	case F_SETOWN:
	case F_GETOWN:
		return 0; /* no SIGIO is ever sent */
	default:
		return -ABI_EINVAL;
	}
}

s64 abi_sys_fcntl(struct abi_call *c)
{
	u32 command = (u32)c->a[1];
	struct abi_desc *d;
	s64 result;

	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
		if (c->a[2] >= number_limit(c->p))
			return -ABI_EINVAL;
		return duplicate_fd(c->p, c->a[0], (u32)c->a[2],
				    command == F_DUPFD_CLOEXEC);
	}
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -ABI_EBADF;
	result = control_fd(c, d);
	abi_desc_put(c->p, d);
	return result;
}
