// SPDX-License-Identifier: MIT
/*
 * Owns timerfd. desc->lock guards the timer. No thread counts: each reader
 * computes the expirations up to now, and sleeps at most until the next one.
 */
#include "timerfd.h"
#include "time.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/poll/eventfd.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define TFD_ABSTIME 1u
#define TFD_CANCEL_ON_SET 2u

static u64 now_ns(struct abi_proc *p)
{
	return (u64)p->host->clock(ABI_CLOCK_MONOTONIC);
}

/* The caller holds the lock. Returns the number of new expirations. */
static u64 update_ticks(struct abi_desc *d, u64 now)
{
	struct abi_timer *timer = &d->timer;
	u64 n;

	abi_assert_locked(&d->lock);
	if (!timer->next_ns || now < timer->next_ns)
		return 0;
	n = 1;
	if (timer->interval_ns) {
		n += (now - timer->next_ns) / timer->interval_ns;
		timer->next_ns += n * timer->interval_ns;
	} else {
		timer->next_ns = 0;
	}
	timer->ticks += n;
	return n;
}

static u32 timerfd_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u64 fresh, ticks, next;

	abi_lock(p, &d->lock);
	fresh = update_ticks(d, now_ns(p));
	ticks = d->timer.ticks;
	next = d->timer.next_ns;
	abi_unlock(p, &d->lock);
	if (fresh)
		__atomic_add_fetch(&d->event.edge_in, 1, __ATOMIC_SEQ_CST);
	if (due && next && next < *due)
		*due = next;
	return ticks ? ABI_POLLIN : 0;
}

static s64 take_ticks(struct abi_proc *p, struct abi_desc *d, u64 *due,
		      u64 *ticks)
{
	abi_lock(p, &d->lock);
	update_ticks(d, now_ns(p));
	*ticks = d->timer.ticks;
	d->timer.ticks = 0;
	*due = d->timer.next_ns ? d->timer.next_ns : ABI_FOREVER;
	abi_unlock(p, &d->lock);
	return *ticks ? 8 : -LINUX_EAGAIN;
}

static s64 wait_ticks(struct abi_call *c, struct abi_desc *d, u64 *ticks)
{
	u64 due;
	s64 n = take_ticks(c->p, d, &due, ticks), slept = 0;

	if (n == -LINUX_EAGAIN && !(abi_desc_flags(d) & ABI_O_NONBLOCK)) {
		abi_wait_begin(c, 1);
		abi_event_join(c, &d->event);
		for (;;) {
			n = take_ticks(c->p, d, &due, ticks);
			if (n != -LINUX_EAGAIN || slept == -LINUX_EINTR)
				break;
			slept = abi_wait_sleep(c, 0, 0, due);
		}
		abi_event_leave(c, &d->event);
		if (n == -LINUX_EAGAIN)
			n = -ABI_ERESTARTSYS;
	}
	return n;
}

static s64 timerfd_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_counter_read(c, d, s, wait_ticks);
}

const struct abi_desc_ops abi_timerfd_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.unmoved = 1,
	.timed = 1,
	.read = timerfd_read,
	.ready = timerfd_ready,
};

s64 abi_sys_timerfd_create(struct abi_call *c)
{
	u32 clock = (u32)c->a[0], flags = (u32)c->a[1];
	struct abi_desc *d;

	if (flags & ~(ABI_O_NONBLOCK | ABI_O_CLOEXEC))
		return -LINUX_EINVAL;
	if (clock != ABI_CLOCK_ID_REALTIME && clock != ABI_CLOCK_ID_MONOTONIC &&
	    clock != ABI_CLOCK_ID_BOOTTIME)
		return clock == ABI_CLOCK_ID_REALTIME_ALARM ||
				       clock == ABI_CLOCK_ID_BOOTTIME_ALARM
			       ? -LINUX_EPERM
			       : -LINUX_EINVAL;
	d = abi_desc_new(c->p, ABI_DESC_TIMER,
			 ABI_O_RDWR | (flags & ABI_O_NONBLOCK));
	if (!d)
		return -LINUX_ENFILE;
	d->timer.clock = clock;
	abi_strcpy(d->path, "anon_inode:[timerfd]", 32);
	return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
}

/* The caller holds the lock. */
static void read_timer(const struct abi_desc *d, u64 now, u64 *left,
		       u64 *interval)
{
	const struct abi_timer *timer = &d->timer;

	abi_assert_locked(&d->lock);
	*interval = timer->interval_ns;
	*left = 0;
	if (timer->next_ns)
		*left = timer->next_ns > now ? timer->next_ns - now : 1;
}

static s64 put_itimer(struct abi_proc *p, u64 gaddr, u64 left, u64 interval)
{
	s64 error = abi_time_put(p, gaddr, interval);

	return error ? error : abi_time_put(p, gaddr + 16, left);
}

static struct abi_desc *get_timer(struct abi_call *c, s64 *error)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	*error = d ? 0 : -LINUX_EBADF;
	if (d && abi_desc_ops(d) != &abi_timerfd_ops) {
		*error = -LINUX_EINVAL;
		abi_desc_put(c->p, d);
		d = 0;
	}
	return d;
}

/* The first expiration on CLOCK_MONOTONIC; 0 disarms. */
static u64 first_expiry(struct abi_proc *p, const struct abi_desc *d, u32 flags,
			u64 value, u64 now)
{
	if (!value)
		return 0;
	if (!(flags & TFD_ABSTIME))
		return value < ABI_FOREVER - now ? now + value : ABI_FOREVER;
	if (d->timer.clock == ABI_CLOCK_ID_REALTIME)
		value = abi_time_real(p, value);
	return value ? value : 1;
}

s64 abi_sys_timerfd_settime(struct abi_call *c)
{
	u64 value, interval, old_left, old_interval, now = now_ns(c->p);
	u32 flags = (u32)c->a[1];
	struct abi_desc *d;
	s64 error;

	if (flags & ~(TFD_ABSTIME | TFD_CANCEL_ON_SET))
		return -LINUX_EINVAL;
	error = abi_time_get(c->p, c->a[2], &interval);
	if (!error)
		error = abi_time_get(c->p, c->a[2] + 16, &value);
	if (error)
		return error;
	d = get_timer(c, &error);
	if (!d)
		return error;
	value = first_expiry(c->p, d, flags, value, now);
	abi_lock(c->p, &d->lock);
	update_ticks(d, now);
	read_timer(d, now, &old_left, &old_interval);
	d->timer.next_ns = value;
	d->timer.interval_ns = interval == ABI_FOREVER ? 0 : interval;
	d->timer.ticks = 0;
	abi_unlock(c->p, &d->lock);
	abi_event_signal(c->p, &d->event, 0);
	abi_desc_put(c->p, d);
	return c->a[3] ? put_itimer(c->p, c->a[3], old_left, old_interval) : 0;
}

s64 abi_sys_timerfd_gettime(struct abi_call *c)
{
	u64 left, interval, now = now_ns(c->p);
	struct abi_desc *d;
	s64 error;

	d = get_timer(c, &error);
	if (!d)
		return error;
	abi_lock(c->p, &d->lock);
	update_ticks(d, now);
	read_timer(d, now, &left, &interval);
	abi_unlock(c->p, &d->lock);
	abi_desc_put(c->p, d);
	return put_itimer(c->p, c->a[1], left, interval);
}
