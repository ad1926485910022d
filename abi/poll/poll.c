// SPDX-License-Identifier: MIT
/*
 * Owns readiness and the sleep over many descriptions. A set belongs to one
 * thread; the pool of large ones is guarded by fds->lock. epoll.c builds on
 * this file, and the system calls of poll and select lie in sys_poll.c.
 */
#include "poll.h"
#include "wait.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/fs/ring.h"
#include "base/errno.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define ALWAYS (ABI_POLLIN | ABI_POLLOUT | ABI_POLLRDNORM | ABI_POLLWRNORM)
#define DEPTH_MAX 5 /* nested epolls, as Linux */

static u32 ready_due(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	if (ops->ready)
		return ops->ready(p, d, due);
	return ops->polled || ops->collect ? 0 : ALWAYS;
}

u32 abi_desc_ready(struct abi_proc *p, struct abi_desc *d)
{
	return ready_due(p, d, 0);
}

void abi_desc_edges(struct abi_proc *p, struct abi_desc *d, u32 *in, u32 *out)
{
	struct abi_event *a = &d->event, *b = &d->event;

	if (d->in)
		a = &abi_ring_at(p, d->in)->event;
	if (d->out)
		b = &abi_ring_at(p, d->out)->event;
	*in = __atomic_load_n(&a->edge_in, __ATOMIC_SEQ_CST);
	*out = __atomic_load_n(&b->edge_out, __ATOMIC_SEQ_CST);
}

void abi_desc_join(struct abi_call *c, struct abi_desc *d, u32 on)
{
	void (*move)(struct abi_call *, struct abi_event *) =
		on ? abi_event_join : abi_event_leave;

	move(c, &d->event);
	if (d->in)
		move(c, &abi_ring_at(c->p, d->in)->event);
	if (d->out)
		move(c, &abi_ring_at(c->p, d->out)->event);
}

static int hold_desc(struct abi_call *c, struct abi_set *set,
		     struct abi_desc *d)
{
	if (set->holds >= set->size) {
		set->overflow = 1;
		return 0;
	}
	abi_desc_hold(c->p, d);
	set->hold[set->holds++] = (u16)abi_desc_index(c->p, d);
	abi_desc_join(c, d, 1);
	return 1;
}

static void add_handle(struct abi_set *set, const struct abi_desc *d,
		       u32 events, u32 tag, u32 depth)
{
	struct abi_set_item *item;

	if (set->items >= set->size) {
		set->overflow = 1;
		return;
	}
	item = &set->item[set->items++];
	item->poll = (struct abi_poll){d->handle, (u16)events, 0};
	item->tag = (u16)tag;
	item->nested = depth > 0;
}

/* Polls a host handle without waiting. */
static u32 peek_handle(struct abi_call *c, const struct abi_desc *d, u32 events)
{
	struct abi_poll one = {d->handle, (u16)events, 0};

	c->p->host->io_wait(&one, 1, 0, c->t->index);
	return one.revents;
}

u32 abi_set_add(struct abi_call *c, struct abi_set *set, struct abi_desc *d,
		u32 events, u32 tag, u32 depth)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	if (depth > DEPTH_MAX || (set && !hold_desc(c, set, d)))
		return 0;
	if (ops->collect)
		return ops->collect(c, set, d, tag, 1, depth + 1);
	if (!ops->polled)
		return ready_due(c->p, d, set ? &set->due : 0);
	if (!set)
		return events ? peek_handle(c, d, events) : 0;
	if (events)
		add_handle(set, d, events, tag, depth);
	return 0;
}

void abi_set_reset(struct abi_call *c, struct abi_set *set)
{
	struct abi_desc *d;
	u32 i;

	for (i = 0; i < set->holds; i++) {
		d = &c->p->fds.desc[set->hold[i]];
		abi_desc_join(c, d, 0);
		abi_desc_put(c->p, d);
	}
	set->items = set->holds = set->overflow = 0;
	set->due = ABI_FOREVER;
}

s64 abi_set_sleep(struct abi_call *c, struct abi_set *set, u32 ready,
		  u64 deadline)
{
	u64 until = ready ? 0 : deadline < set->due ? deadline : set->due;
	s64 result = 0;
	u32 i;

	if (set->overflow)
		return -LINUX_ENOMEM;
	for (i = 0; i < set->items; i++)
		set->list[i] = set->item[i].poll;
	if (set->items || !ready)
		result = abi_wait_sleep(c, set->list, set->items, until);
	for (i = 0; i < set->items; i++)
		set->item[i].poll.revents = set->list[i].revents;
	if (ready)
		return 0;
	return result == -LINUX_ETIMEDOUT && until != deadline ? 0 : result;
}

/*
 * After a kick, or if another thread consumed the event, a poll ends without a
 * result. After the deadline that is repeated a few times only.
 */
int abi_set_again(struct abi_call *c, u64 deadline, u32 *rounds)
{
	if (deadline == ABI_FOREVER ||
	    (deadline &&
	     (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC) < deadline))
		return 1;
	return ++*rounds < 4;
}

struct abi_set_space *abi_set_space_take(struct abi_proc *p)
{
	struct abi_set_space *found = 0;
	u32 i;

	abi_lock(p, &p->fds.lock);
	for (i = 0; i < ABI_SET_POOL && !found; i++)
		if (!p->fds.set[i].used)
			found = &p->fds.set[i];
	if (found)
		found->used = 1;
	if (p->fds.set_high < i) /* where the loop ended */
		p->fds.set_high = i;
	abi_unlock(p, &p->fds.lock);
	return found;
}

void abi_set_space_drop(struct abi_proc *p, struct abi_set_space *space)
{
	abi_lock(p, &p->fds.lock);
	space->used = 0;
	abi_unlock(p, &p->fds.lock);
}

void abi_set_init_large(struct abi_set *set, struct abi_set_space *space)
{
	*set = (struct abi_set){.size = ABI_SET_LARGE,
				.item = space->item,
				.hold = space->hold,
				.list = space->list,
				.due = ABI_FOREVER};
}
