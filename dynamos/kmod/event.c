// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of updates, for readers of the device: a lock-free ring, because a
 * WARN may happen in any context. A writer takes the next number, which selects
 * a place in the ring, and marks the place when it begins and when it ends. A
 * reader that was overtaken gets the number of lost events.
 *
 * Context: dynamos_event_add() runs anywhere, in NMIs too. Readers are system
 * calls. They are woken from an irq_work (hardirq).
 */
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "internal.h"

#define EVENTS 256 /* capacity of the ring */

struct place {
	u64 mark; /* of event n: 2n + 1 while it is written, then 2n + 2 */
	struct dynamos_event event;
};

static struct place *ring;
static atomic64_t taken; /* events started */
static DECLARE_WAIT_QUEUE_HEAD(readers);

static void wake_readers(struct irq_work *work)
{
	wake_up_interruptible(&readers);
}

static struct irq_work waker = IRQ_WORK_INIT(wake_readers);

void dynamos_event_add(const char *name, u32 cause, u32 state, s32 pid,
		       const char *comm, const char *text)
{
	u64 n = atomic64_inc_return(&taken) - 1;
	struct place *place = &ring[n % EVENTS];
	struct dynamos_event *event = &place->event;

	WRITE_ONCE(place->mark, 2 * n + 1);
	smp_wmb();
	memset(event, 0, sizeof(*event));
	event->time = ktime_get_boot_fast_ns();
	event->cause = cause;
	event->state = state;
	event->pid = pid;
	strscpy(event->name, name, sizeof(event->name));
	strscpy(event->comm, comm ? comm : "", sizeof(event->comm));
	strscpy(event->text, text ? text : "", sizeof(event->text));
	smp_store_release(&place->mark, 2 * n + 2);
	irq_work_queue(&waker);
}

/* 1: event n. 0: not written yet. -1: overwritten. */
static int read_event(u64 n, struct dynamos_event *event)
{
	struct place *place = &ring[n % EVENTS];
	u64 mark = smp_load_acquire(&place->mark);

	if (mark < 2 * n + 2)
		return 0;
	*event = place->event;
	smp_rmb();
	return mark == 2 * n + 2 && READ_ONCE(place->mark) == mark ? 1 : -1;
}

static void fill_dropped(u64 count, struct dynamos_event *event)
{
	memset(event, 0, sizeof(*event));
	event->time = ktime_get_boot_fast_ns();
	event->cause = DYNAMOS_DROPPED;
	snprintf(event->text, sizeof(event->text), "%llu events were lost",
		 count);
}

/* The next record for a file that has read `*at` events. 0: none yet. */
static int next_event(u64 *at, struct dynamos_event *event)
{
	u64 all = atomic64_read(&taken), oldest;
	int got;

	do {
		/* One place may be partly overwritten. */
		oldest = all < EVENTS ? 0 : all - EVENTS + 1;
		if (*at < oldest) {
			fill_dropped(oldest - *at, event);
			*at = oldest;
			return 1;
		}
		got = read_event(*at, event);
		all = atomic64_read(&taken);
	} while (got < 0);
	*at += got;
	return got;
}

static bool event_ready(u64 at)
{
	struct place *place = &ring[at % EVENTS];

	return smp_load_acquire(&place->mark) >= 2 * at + 2;
}

ssize_t dynamos_event_read(struct file *file, char __user *to, size_t size,
			   loff_t *at)
{
	struct dynamos_event event;
	u64 position = *at;
	ssize_t done = 0;

	if (size < sizeof(event))
		return -EINVAL;
	while (size - done >= sizeof(event)) {
		if (!next_event(&position, &event)) {
			if (done)
				break;
			if (file->f_flags & O_NONBLOCK)
				return -EAGAIN;
			if (wait_event_interruptible(readers,
						     event_ready(position)))
				return -ERESTARTSYS;
			continue;
		}
		if (copy_to_user(to + done, &event, sizeof(event)))
			return done ? done : -EFAULT;
		done += sizeof(event);
		*at = position;
	}
	return done;
}

__poll_t dynamos_event_poll(struct file *file, struct poll_table_struct *wait)
{
	poll_wait(file, &readers, wait);
	return event_ready(file->f_pos) ? EPOLLIN | EPOLLRDNORM : 0;
}

int dynamos_event_init(void)
{
	ring = vzalloc(array_size(EVENTS, sizeof(*ring)));
	return ring ? 0 : -ENOMEM;
}

/* All files are closed, and no event is added any more. */
void dynamos_event_exit(void)
{
	irq_work_sync(&waker);
	vfree(ring);
}
