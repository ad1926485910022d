// SPDX-License-Identifier: MIT
/* Owns ioctl(2): the requests that work on any file, and what a host that
 * passes on no request of terminals says of them. */
#include "desc.h"
#include "fd.h"
#include "ops.h"
#include "terminal.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define TCGETS 0x5401
#define TCSETS 0x5402
#define TCSETSF 0x5404
#define TIOCGPGRP 0x540f
#define TIOCSPGRP 0x5410
#define TIOCGWINSZ 0x5413
#define FIONREAD 0x541b
#define FIONBIO 0x5421
#define FIONCLEX 0x5450
#define FIOCLEX 0x5451
#define FIOASYNC 0x5452
#define SIOCOUTQ 0x5411
#define FICLONE 0x40049409
#define FICLONERANGE 0x4020940d
#define SIOCATMARK 0x8905

/* The kernel's struct termios of x86-64. */
struct termios {
	u32 iflag, oflag, cflag, lflag;
	u8 line, cc[19];
};

struct winsize {
	u16 rows, columns, x, y;
};

static s64 window_size(struct abi_call *c, struct abi_desc *d)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	return ops->window ? ops->window(c, d) : -LINUX_ENOTTY;
}

static s64 refuse_terminal(struct abi_call *c, struct abi_desc *d)
{
	if (window_size(c, d) < 0)
		return -LINUX_ENOTTY;
	return abi_refuse(c->p, ABI_REFUSE_TERMINAL, -LINUX_EINVAL);
}

/* The attributes of a terminal in canonical mode; they cannot be changed. */
static s64 get_termios(struct abi_call *c, struct abi_desc *d)
{
	static const struct termios usual = {
		.iflag = 0x500,
		.oflag = 5,
		.cflag = 0xbf,
		.lflag = 0x8a3b,
		.cc = {3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23,
		       22},
	};
	s64 size = window_size(c, d);

	return size < 0 ? -LINUX_ENOTTY : ABI_PUT(c->p, c->a[2], &usual);
}

static s64 get_window(struct abi_call *c, struct abi_desc *d)
{
	s64 size = window_size(c, d);
	struct winsize w = {(u16)(size >> 16), (u16)size, 0, 0};

	return size < 0 ? size : ABI_PUT(c->p, c->a[2], &w);
}

static s64 bytes_available(struct abi_call *c, struct abi_desc *d)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);
	s64 n = ops->available ? ops->available(c, d) : -LINUX_ENOTTY;
	s32 out;

	if (n < 0)
		return n;
	out = n > 0x7fffffff ? 0x7fffffff : (s32)n;
	return ABI_PUT(c->p, c->a[2], &out);
}

static s64 set_nonblock(struct abi_call *c, struct abi_desc *d)
{
	s32 on;

	if (ABI_GET(c->p, &on, c->a[2]))
		return -LINUX_EFAULT;
	if (on)
		__atomic_fetch_or(&d->flags, ABI_O_NONBLOCK, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&d->flags, ~(u32)ABI_O_NONBLOCK,
				   __ATOMIC_RELAXED);
	return 0;
}

static s64 set_cloexec(struct abi_call *c, u16 on)
{
	u32 fd = (u32)c->a[0];

	abi_lock(c->p, &c->p->fds.lock);
	if (abi_slots(c->p)[fd].desc)
		abi_slots(c->p)[fd].cloexec = on;
	abi_unlock(c->p, &c->p->fds.lock);
	return 0;
}

/* The foreground process group of a terminal of the host. */
static s64 terminal_group(struct abi_call *c, struct abi_desc *d)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_SET_TTY,
				   .handle = d->handle};
	s64 group;
	s32 pid;

	if ((u32)c->a[1] == TIOCSPGRP) {
		if (ABI_GET(c->p, &op.pid, c->a[2]))
			return -LINUX_EFAULT;
		return c->p->host->family(&op, c->t->index);
	}
	op.verb = ABI_FAMILY_TTY_GROUP;
	group = c->p->host->family(&op, c->t->index);
	pid = (s32)group;
	return group < 0 ? group : ABI_PUT(c->p, c->a[2], &pid);
}

/* Requests 0x8900 to 0x89ff are about network devices and interfaces. */
static s64 refuse_network(struct abi_call *c, struct abi_desc *d)
{
	if (!abi_desc_ops(d)->sock)
		return -LINUX_ENOTTY;
	abi_log_once(c->p, &c->p->fds.said_ioctl,
		     "an ioctl of a socket refused (ENOTTY): interfaces, "
		     "routes, owners and unsent bytes are not shown, nor on "
		     "this host SIOCATMARK");
	return -LINUX_ENOTTY;
}

static s64 is_at_mark(struct abi_call *c, struct abi_desc *d)
{
	struct abi_file_op op = {.verb = ABI_FILE_ATMARK};
	s64 at = -LINUX_ENOSYS;
	s32 out;

	if (abi_desc_ops(d)->sock && abi_desc_ops(d)->handle)
		at = c->p->host->file(d->handle, &op);
	if (at == -LINUX_ENOSYS)
		return refuse_network(c, d);
	out = (s32)at;
	return at < 0 ? at : ABI_PUT(c->p, c->a[2], &out);
}

/* No SIGIO is ever sent. */
static s64 set_async(struct abi_call *c)
{
	s32 on;

	if (ABI_GET(c->p, &on, c->a[2]))
		return -LINUX_EFAULT;
	if (on)
		abi_fd_refuse_async(c->p);
	return on ? -LINUX_ENOTTY : 0;
}

/* File systems answer FICLONE so that cannot share blocks. */
static s64 refuse_device(struct abi_call *c, struct abi_desc *d)
{
	u32 request = (u32)c->a[1], group = request >> 8 & 0xff;
	u32 file = d->type == ABI_S_IFREG || d->type == ABI_S_IFDIR;

	if (abi_desc_ops(d)->sock && request == SIOCOUTQ)
		return refuse_network(c, d);
	if (file && (request == FICLONE || request == FICLONERANGE))
		return -LINUX_EOPNOTSUPP;
	if (file && abi_desc_ops(d)->handle && (group == 'f' || group == 'X'))
		return abi_refuse(c->p, ABI_REFUSE_INODE, -LINUX_ENOTTY);
	if (d->type == ABI_S_IFCHR && abi_desc_ops(d)->handle)
		abi_log_once(c->p, &c->p->fds.said_device,
			     "an ioctl of a device refused (ENOTTY): only "
			     "those of terminals are passed on");
	return -LINUX_ENOTTY;
}

static s64 control_device(struct abi_call *c, struct abi_desc *d)
{
	s64 n;

	if (abi_desc_flags(d) & ABI_O_PATH)
		return -LINUX_EBADF;
	n = abi_terminal_control(c, d);
	if (n != -LINUX_ENOSYS)
		return n;
	switch ((u32)c->a[1]) {
	case TCGETS:
		return get_termios(c, d);
	case TIOCGPGRP:
	case TIOCSPGRP:
		if (abi_forks(c->p) && abi_desc_ops(d)->handle)
			return terminal_group(c, d);
		return refuse_terminal(c, d);
	case TCSETS ... TCSETSF:
		return refuse_terminal(c, d);
	case TIOCGWINSZ:
		return get_window(c, d);
	case FIONREAD:
		return bytes_available(c, d);
	case FIONBIO:
		return set_nonblock(c, d);
	case FIOCLEX:
		return set_cloexec(c, 1);
	case FIONCLEX:
		return set_cloexec(c, 0);
	case FIOASYNC:
		return set_async(c);
	case SIOCATMARK:
		return is_at_mark(c, d);
	default:
		return ((u32)c->a[1] & ~0xffu) == 0x8900 ? refuse_network(c, d)
							 : refuse_device(c, d);
	}
}

s64 abi_sys_ioctl(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 result;

	if (!d)
		return -LINUX_EBADF;
	result = control_device(c, d);
	abi_desc_put(c->p, d);
	return result;
}
