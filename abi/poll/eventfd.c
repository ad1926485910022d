// SPDX-License-Identifier: MIT
/* Owns eventfd(2). desc->lock guards the counter, and that it is abi's. */
#include "eventfd.h"
#include "wait.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/fs/regular.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define EFD_SEMAPHORE 1u

/* If the description has changed, the call starts again. */
static int is_own(const struct abi_desc *d)
{
	abi_assert_locked(&d->lock);
	return d->kind == ABI_DESC_EVENT;
}

static s64 take_value(struct abi_proc *p, struct abi_desc *d, u64 *value)
{
	s64 result = -LINUX_EAGAIN;

	abi_lock(p, &d->lock);
	if (!is_own(d)) {
		result = -ABI_ERESTARTNOINTR;
	} else if (d->value) {
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
	if (!is_own(d)) {
		result = -ABI_ERESTARTNOINTR;
	} else if (value <= ABI_EVENTFD_MAX - d->value) {
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

static s64 wait_value(struct abi_call *c, struct abi_desc *d, u64 *value)
{
	return transfer_value(c, d, value, 0);
}

static s64 eventfd_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_counter_read(c, d, s, wait_value);
}

typedef s64 transfer(struct abi_call *c, struct abi_desc *d, u64 *value,
		     u32 writing);

static s64 write_value(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, transfer *add)
{
	u64 value = 0;

	if (s->left < 8)
		return -LINUX_EINVAL;
	if (abi_span_gather(c->p, s, &value, 8) < 8)
		return -LINUX_EFAULT;
	if (value == ~0ull)
		return -LINUX_EINVAL;
	return add(c, d, &value, 1);
}

static s64 eventfd_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset)
{
	(void)offset;
	return write_value(c, d, s, transfer_value);
}

static u32 eventfd_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u32 ready = 0;

	(void)due;
	abi_lock(p, &d->lock);
	if (d->value)
		ready |= ABI_POLLIN;
	if (d->value < ABI_EVENTFD_MAX)
		ready |= ABI_POLLOUT;
	abi_unlock(p, &d->lock);
	return ready;
}

const struct abi_desc_ops abi_eventfd_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.unmoved = 1,
	.read = eventfd_read,
	.write = eventfd_write,
	.ready = eventfd_ready,
};

/* Counters of the host ---------------------------------------------------- */

/*
 * The host tells when there is room for 1, not for more. A reader of this
 * process wakes the writer, but nothing tells of one of another process.
 */
#define LOOK_NS 10000000

/* Each write is an edge for epoll, also if nobody has read the one before. */
static s64 host_part(struct abi_call *c, struct abi_desc *d, u64 *value,
		     u32 writing)
{
	const struct abi_host *host = c->p->host;
	struct abi_io io = {value, sizeof(*value), ABI_STREAM};
	s64 n = writing ? host->file_write(d->handle, &io)
			: host->file_read(d->handle, &io);

	abi_event_rearm(c->p, &d->event, ABI_EDGE_IN | ABI_EDGE_OUT);
	if (n > 0 && !writing)
		abi_event_signal(c->p, &d->event, 0);
	return n;
}

/* Waits until `*value` may fit: 0, or -EINTR. */
static s64 wait_room(struct abi_call *c, struct abi_desc *d, u64 *value, s64 *n)
{
	s64 slept = 0;

	abi_wait_begin(c, 1);
	abi_event_join(c, &d->event);
	for (;;) {
		*n = host_part(c, d, value, 1);
		if (*n != -LINUX_EAGAIN || slept == -LINUX_EINTR)
			break;
		slept = abi_wait_sleep(c, 0, 0,
				       abi_wait_deadline(c->p, LOOK_NS));
	}
	abi_event_leave(c, &d->event);
	return *n == -LINUX_EAGAIN ? slept : 0;
}

static s64 transfer_host(struct abi_call *c, struct abi_desc *d, u64 *value,
			 u32 writing)
{
	s64 n, rc;

	for (;;) {
		n = host_part(c, d, value, writing);
		if (n != -LINUX_EAGAIN || abi_desc_flags(d) & ABI_O_NONBLOCK)
			return n;
		if (writing && *value > 1) {
			rc = wait_room(c, d, value, &n);
			return rc ? -ABI_ERESTARTSYS : n;
		}
		rc = abi_wait_handle(c, d->handle,
				     writing ? ABI_POLLOUT : ABI_POLLIN,
				     ABI_FOREVER);
		if (rc)
			return rc == -LINUX_EINTR ? -ABI_ERESTARTSYS : rc;
	}
}

static s64 wait_host(struct abi_call *c, struct abi_desc *d, u64 *value)
{
	return transfer_host(c, d, value, 0);
}

static s64 counter_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_counter_read(c, d, s, wait_host);
}

static s64 counter_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset)
{
	(void)offset;
	return write_value(c, d, s, transfer_host);
}

const struct abi_desc_ops abi_counter_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.handle = 1,
	.polled = 1,
	.unmoved = 1,
	.read = counter_read,
	.write = counter_write,
	.release = abi_handle_release,
};

s64 abi_eventfd_share(struct abi_proc *p, struct abi_desc *d)
{
	s64 handle = 0;

	if (d->kind != ABI_DESC_EVENT || !p->host->counter)
		return 0;
	abi_lock(p, &d->lock);
	if (is_own(d)) {
		handle = p->host->counter(d->value, d->code);
		if (handle >= 0) {
			d->handle = (s32)handle;
			__atomic_store_n(&d->kind, ABI_DESC_COUNTER,
					 __ATOMIC_SEQ_CST);
		}
	}
	abi_unlock(p, &d->lock);
	abi_event_signal(p, &d->event, ABI_EDGE_IN | ABI_EDGE_OUT);
	return handle < 0 ? handle : 0;
}

/* A program that has started another one will share the next one too. */
static s64 open_counter(struct abi_proc *p, u64 value, u32 semaphore)
{
	if (!p->host->counter || !__atomic_load_n(&p->forked, __ATOMIC_RELAXED))
		return -1;
	return p->host->counter(value, semaphore);
}

static s64 create_eventfd(struct abi_call *c, u32 flags)
{
	struct abi_desc *d;
	s64 handle;

	if (flags & ~(EFD_SEMAPHORE | ABI_O_NONBLOCK | ABI_O_CLOEXEC))
		return -LINUX_EINVAL;
	handle = open_counter(c->p, (u32)c->a[0], flags & EFD_SEMAPHORE);
	if (handle < -1)
		return handle;
	d = abi_desc_new(c->p, handle < 0 ? ABI_DESC_EVENT : ABI_DESC_COUNTER,
			 ABI_O_RDWR | (flags & ABI_O_NONBLOCK));
	if (!d && handle >= 0)
		c->p->host->file_close((s32)handle);
	if (!d)
		return -LINUX_ENFILE;
	d->handle = (s32)handle;
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
