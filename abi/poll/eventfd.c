// SPDX-License-Identifier: MIT
/* Owns eventfd(2). desc->lock guards the counter. */
#include "eventfd.h"
#include "wait.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define EFD_SEMAPHORE 1u
#define LARGEST 0xfffffffffffffffeull

static s64 take_value(struct abi_proc *p, struct abi_desc *d, u64 *value)
{
	s64 result = -LINUX_EAGAIN;

	abi_lock(p, &d->lock);
	if (d->value) {
		*value = d->code ? 1 : d->value;
		d->value -= *value;
		result = 8;
	}
	abi_unlock(p, &d->lock);
	if (result > 0)
		abi_event_signal(p, &d->event, ABI_EDGE_OUT);
	return result;
}

static s64 add_value(struct abi_proc *p, struct abi_desc *d, u64 value)
{
	s64 result = -LINUX_EAGAIN;

	abi_lock(p, &d->lock);
	if (value <= LARGEST - d->value) {
		d->value += value;
		result = 8;
	}
	abi_unlock(p, &d->lock);
	if (result > 0)
		abi_event_signal(p, &d->event, ABI_EDGE_IN);
	return result;
}

/* Adds `value` if `writing`, otherwise reads it. */
static s64 transfer_value(struct abi_call *c, struct abi_desc *d, u64 *value,
			  u32 writing)
{
	s64 n, slept = 0;

	n = writing ? add_value(c->p, d, *value) : take_value(c->p, d, value);
	if (n != -LINUX_EAGAIN || abi_desc_flags(d) & ABI_O_NONBLOCK)
		return n;
	abi_wait_begin(c, 1);
	abi_event_join(c, &d->event);
	for (;;) {
		n = writing ? add_value(c->p, d, *value)
			    : take_value(c->p, d, value);
		if (n != -LINUX_EAGAIN || slept)
			break;
		slept = abi_wait_sleep(c, 0, 0, ABI_FOREVER);
	}
	abi_event_leave(c, &d->event);
	return n == -LINUX_EAGAIN ? -ABI_ERESTARTSYS : n;
}

s64 abi_counter_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 (*take)(struct abi_call *c, struct abi_desc *d,
				 u64 *value))
{
	u64 value = 0;
	s64 n;

	if (s->left < 8)
		return -LINUX_EINVAL;
	n = take(c, d, &value);
	if (n < 0)
		return n;
	return abi_span_scatter(c->p, s, &value, 8) < 8 ? -LINUX_EFAULT : 8;
}

/* The counter is not shared with the process that created it. */
static s64 refuse_parted(struct abi_call *c)
{
	abi_log_once(c->p, &c->p->fds.said_parted,
		     "an eventfd that was made before fork refused (EIO): "
		     "processes do not share it; use a pipe");
	return -LINUX_EIO;
}

static s64 wait_value(struct abi_call *c, struct abi_desc *d, u64 *value)
{
	return transfer_value(c, d, value, 0);
}

static s64 eventfd_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	if (d->parted)
		return refuse_parted(c);
	return abi_counter_read(c, d, s, wait_value);
}

static s64 eventfd_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset)
{
	u64 value = 0;

	(void)offset;
	if (d->parted)
		return refuse_parted(c);
	if (s->left < 8)
		return -LINUX_EINVAL;
	if (abi_span_gather(c->p, s, &value, 8) < 8)
		return -LINUX_EFAULT;
	if (value == ~0ull)
		return -LINUX_EINVAL;
	return transfer_value(c, d, &value, 1);
}

static u32 eventfd_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u32 ready = 0;

	(void)due;
	abi_lock(p, &d->lock);
	if (d->value)
		ready |= ABI_POLLIN;
	if (d->value < LARGEST)
		ready |= ABI_POLLOUT;
	abi_unlock(p, &d->lock);
	return ready;
}

const struct abi_desc_ops abi_eventfd_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.unmoved = 1,
	.divided = 1,
	.read = eventfd_read,
	.write = eventfd_write,
	.ready = eventfd_ready,
};

static s64 create_eventfd(struct abi_call *c, u32 flags)
{
	struct abi_desc *d;

	if (flags & ~(EFD_SEMAPHORE | ABI_O_NONBLOCK | ABI_O_CLOEXEC))
		return -LINUX_EINVAL;
	d = abi_desc_new(c->p, ABI_DESC_EVENT,
			 ABI_O_RDWR | (flags & ABI_O_NONBLOCK));
	if (!d)
		return -LINUX_ENFILE;
	d->code = flags & EFD_SEMAPHORE;
	d->value = (u32)c->a[0];
	abi_strcpy(d->path, "anon_inode:[eventfd]", 32);
	return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
}

s64 abi_sys_eventfd(struct abi_call *c)
{
	return create_eventfd(c, 0);
}

s64 abi_sys_eventfd2(struct abi_call *c)
{
	return create_eventfd(c, (u32)c->a[1]);
}
