// SPDX-License-Identifier: MIT
/*
 * Owns the calls that change descriptor numbers: close, dup, and fcntl(2).
 * fds->lock guards the numbers.
 */
#include "fd.h"
#include "desc.h"
#include "filelock.h"
#include "ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/poll/epoll.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

int abi_fds_init(struct abi_proc *p)
{
	p->fds.high = 0;
	return 0;
}

/* Empties a slot. The caller holds the lock, and calls after_take afterwards
 * without it. */
static struct abi_desc *empty_slot(struct abi_proc *p, u32 fd, u32 *gone)
{
	struct abi_slot *slot = &abi_slots(p)[fd];
	struct abi_desc *d;

	abi_assert_locked(&p->fds.lock);
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
 * When its last number is closed, a description is removed from all interest
 * lists, and a thread that sleeps on it for epoll wakes up and drops its
 * reference: a socket must be closed now, not at some later event.
 */
static void after_take(struct abi_proc *p, struct abi_desc *d, u32 gone)
{
	if (!d)
		return;
	/* the parent of a vfork keeps its record locks */
	if (!abi_vfork_is(p))
		abi_filelock_close(p, d);
	if (gone)
		abi_epoll_forget(p, d);
	abi_desc_put(p, d);
}

s64 abi_desc_install_two(struct abi_proc *p, struct abi_desc *end[2],
			 u32 cloexec, u64 gaddr)
{
	s64 a = abi_desc_install(p, end[0], 0, cloexec);
	s64 b = abi_desc_install(p, end[1], 0, cloexec);
	s32 fd[2] = {(s32)a, (s32)b};
	s64 error = a < 0 ? a : b < 0 ? b : ABI_PUT(p, gaddr, &fd);

	if (!error)
		return 0;
	if (a >= 0)
		abi_fd_close(p, (u32)a);
	if (b >= 0)
		abi_fd_close(p, (u32)b);
	return error;
}

int abi_fd_close(struct abi_proc *p, u32 fd)
{
	struct abi_desc *d;
	u32 gone;

	if (fd >= ABI_FD_MAX)
		return -LINUX_EBADF;
	abi_lock(p, &p->fds.lock);
	d = empty_slot(p, fd, &gone);
	abi_unlock(p, &p->fds.lock);
	after_take(p, d, gone);
	return d ? 0 : -LINUX_EBADF;
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

/* dup2 and dup3: `to` becomes a number of `d`; takes over the reference. */
static s64 replace_slot(struct abi_proc *p, struct abi_desc *d, u32 to,
			u32 cloexec)
{
	struct abi_desc *old;
	u32 gone;

	if (to >= abi_desc_limit(p)) {
		abi_desc_put(p, d);
		return -LINUX_EBADF;
	}
	abi_lock(p, &p->fds.lock);
	old = empty_slot(p, to, &gone);
	abi_desc_number(p, to, d, cloexec);
	abi_unlock(p, &p->fds.lock);
	after_take(p, old, gone);
	return to;
}

/* abi knows directories by name; one that has no name below the root cannot be
 * used. */
s64 abi_fd_name(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_file_op op = {
		.verb = ABI_FILE_NAME, .buf = d->path, .len = sizeof(d->path)};
	s64 error = 0;

	if (d->type == ABI_S_IFREG || d->type == ABI_S_IFDIR ||
	    d->type == ABI_S_IFCHR)
		error = p->host->file(d->handle, &op);
	else
		abi_strcpy(d->path,
			   d->type == ABI_S_IFSOCK ? "socket:[host]"
						   : "pipe:[host]",
			   32);
	if (error && d->type != ABI_S_IFDIR)
		abi_strcpy(d->path, "file:[received]", 32);
	return d->type == ABI_S_IFDIR ? error : 0;
}

s64 abi_fd_describe(struct abi_proc *p, const struct abi_right *r,
		    struct abi_desc **out)
{
	u32 kind = r->type == ABI_S_IFSOCK ? ABI_DESC_SOCK
					   : abi_desc_kind(r->type);
	struct abi_desc *d = abi_desc_new(p, kind, r->flags & ~ABI_O_CLOEXEC);
	s64 error;

	if (!d) {
		p->host->file_close(r->handle);
		return -LINUX_ENFILE;
	}
	d->handle = r->handle;
	d->type = r->type;
	d->inherited = abi_desc_ops(d)->placed;
	d->domain = r->domain;
	d->sock_type = r->sock_type;
	d->protocol = r->protocol;
	d->listening = r->listening;
	error = abi_fd_name(p, d);
	if (error)
		abi_desc_put(p, d);
	else
		*out = d;
	return error;
}

int abi_fd_adopt(struct abi_proc *p, u32 fd, const struct abi_right *r)
{
	struct abi_desc *d;
	s64 result = abi_fd_describe(p, r, &d);

	if (!result)
		result = replace_slot(p, d, fd, r->flags & ABI_O_CLOEXEC);
	return result < 0 ? (int)result : 0;
}

int abi_fd_attach(struct abi_proc *p, u32 fd, s32 handle, u32 type, u32 flags)
{
	struct abi_right r = {
		.handle = handle, .flags = flags, .type = type & ABI_S_IFMT};
	int error;

	if (r.type == ABI_S_IFSOCK)
		r.sock_type = ABI_SOCK_STREAM;
	error = abi_fd_adopt(p, fd, &r);
	if (!error)
		p->fds.desc[p->fds.slot[fd].desc - 1].std = fd + 1;
	return error;
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
		return -LINUX_EINVAL;
	for (fd = first; fd < ABI_FD_MAX && fd <= last; fd++) {
		if (!(how & CLOSE_RANGE_CLOEXEC)) {
			abi_fd_close(c->p, fd);
			continue;
		}
		abi_lock(c->p, &c->p->fds.lock);
		abi_slots(c->p)[fd].cloexec = !!abi_slots(c->p)[fd].desc;
		abi_unlock(c->p, &c->p->fds.lock);
	}
	return 0;
}

static s64 duplicate_fd(struct abi_proc *p, u64 fd, u32 least, u32 cloexec)
{
	struct abi_desc *d = abi_desc_get(p, fd);

	if (!d)
		return -LINUX_EBADF;
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
		return -LINUX_EBADF;
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
		return -LINUX_EINVAL;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
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
#define F_SETSIG 10
#define F_GETSIG 11
#define F_SETOWN_EX 15
#define F_GETOWNER_UIDS 17
#define F_SETLEASE 1024
#define F_GETLEASE 1025
#define F_NOTIFY 1026
#define F_DUPFD_CLOEXEC 1030
#define F_SETPIPE_SZ 1031
#define F_GETPIPE_SZ 1032
#define F_ADD_SEALS 1033
#define F_SET_FILE_RW_HINT 1038

#define SETTABLE (ABI_O_APPEND | ABI_O_NONBLOCK | ABI_O_DIRECT | ABI_O_NOATIME)

static s64 slot_flags(struct abi_proc *p, u32 fd, s32 set)
{
	s64 result;

	abi_lock(p, &p->fds.lock);
	if (set >= 0)
		abi_slots(p)[fd].cloexec = set & 1;
	result = abi_slots(p)[fd].cloexec;
	abi_unlock(p, &p->fds.lock);
	return set >= 0 ? 0 : result;
}

void abi_fd_refuse_async(struct abi_proc *p)
{
	abi_log_once(p, &p->fds.said_async,
		     "FIOASYNC and O_ASYNC refused: no SIGIO is sent; use "
		     "poll");
}

static s64 set_status(struct abi_proc *p, struct abi_desc *d, u32 flags)
{
	u32 old = abi_desc_flags(d), fresh;

	if (flags & ABI_O_ASYNC) {
		abi_fd_refuse_async(p);
		return -LINUX_EINVAL;
	}
	do
		fresh = (old & ~(u32)SETTABLE) | (flags & SETTABLE);
	while (!__atomic_compare_exchange_n(
		&d->flags, &old, fresh, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

/* Linux takes an unsigned int, and at least a page. */
static s64 pipe_size(struct abi_proc *p, struct abi_desc *d, u32 command,
		     u32 bytes)
{
	if (!abi_desc_ops(d)->capacity)
		return -LINUX_EBADF;
	if (command == F_GETPIPE_SZ)
		return abi_desc_ops(d)->capacity(p, d, 0);
	if (bytes > 1u << 31)
		return -LINUX_EINVAL;
	return abi_desc_ops(d)->capacity(p, d, bytes ? bytes : 1);
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
		return set_status(c->p, d, (u32)c->a[2]);
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return abi_filelock_control(c, d, (u32)c->a[1]);
	case F_SETPIPE_SZ:
	case F_GETPIPE_SZ:
		return pipe_size(c->p, d, (u32)c->a[1], (u32)c->a[2]);
	case F_SETOWN:
	case F_GETOWN:
		return 0; /* no SIGIO is ever sent */
	case F_SETLEASE:
	case F_GETLEASE:
	case F_NOTIFY:
		abi_log_once(c->p, &c->p->fds.said_lease,
			     "fcntl refused (EINVAL): F_SETLEASE, F_GETLEASE "
			     "and F_NOTIFY are not supported");
		return -LINUX_EINVAL;
	case F_SETSIG:
	case F_GETSIG:
	case F_SETOWN_EX ... F_GETOWNER_UIDS:
	case F_ADD_SEALS ... F_SET_FILE_RW_HINT:
		return abi_refuse(c->p, ABI_REFUSE_FCNTL, -LINUX_EINVAL);
	default:
		return -LINUX_EINVAL;
	}
}

s64 abi_sys_fcntl(struct abi_call *c)
{
	u32 command = (u32)c->a[1];
	struct abi_desc *d;
	s64 result;

	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
		if (c->a[2] >= abi_desc_limit(c->p))
			return -LINUX_EINVAL;
		return duplicate_fd(c->p, c->a[0], (u32)c->a[2],
				    command == F_DUPFD_CLOEXEC);
	}
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
	result = control_fd(c, d);
	abi_desc_put(c->p, d);
	return result;
}
