// SPDX-License-Identifier: MIT
/*
 * Owns epoll: all interest lists, under fds->epoll_lock.
 *
 * Level-triggered entries are polled at each wait. For edges (EPOLLET), an
 * object inside abi counts its own, exactly as often as Linux would wake a
 * waiter. A host handle reports only levels. So after one of its events was
 * reported, it is not polled again until a call on it reads input or finds
 * none, or finds no space (abi_event_rearm). A program that reads until EAGAIN,
 * or exactly what has arrived, gets every edge; one that leaves bytes after a
 * read may be notified once more than under Linux.
 */
#include "epoll.h"
#include "poll.h"
#include "wait.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"

#define CTL_ADD 1
#define CTL_DEL 2
#define CTL_MOD 3

#define IN_BITS                                                                \
	(ABI_POLLIN | ABI_POLLRDNORM | ABI_POLLPRI | ABI_POLLRDBAND |          \
	 ABI_POLLRDHUP)
#define OUT_BITS (ABI_POLLOUT | ABI_POLLWRNORM | ABI_POLLWRBAND)
#define LASTING (ABI_POLLERR | ABI_POLLHUP)
#define BITS 0xffffu

static struct abi_watch *watch_at(struct abi_proc *p, u32 index)
{
	return &p->fds.watch[index - 1];
}

static struct abi_desc *watch_target(struct abi_proc *p,
				     const struct abi_watch *w)
{
	return &p->fds.desc[w->desc];
}

/* Removes the entry at *link from its list. */
static void unlink_watch(struct abi_proc *p, u32 *link)
{
	struct abi_watch *w = watch_at(p, *link);

	*link = w->next;
	watch_target(p, w)->watched--;
	w->used = 0;
}

int abi_epoll_is(const struct abi_desc *d)
{
	return abi_desc_ops(d) == &abi_epoll_ops;
}

static int epoll_release(struct abi_proc *p, struct abi_desc *d)
{
	abi_lock(p, &p->fds.epoll_lock);
	while (d->watch)
		unlink_watch(p, &d->watch);
	abi_unlock(p, &p->fds.epoll_lock);
	return 1;
}

static void forget_in(struct abi_proc *p, struct abi_desc *epoll, u32 desc)
{
	u32 *link = &epoll->watch;

	while (*link) {
		if (watch_at(p, *link)->desc == desc)
			unlink_watch(p, link);
		else
			link = &watch_at(p, *link)->next;
	}
}

void abi_epoll_forget(struct abi_proc *p, struct abi_desc *d)
{
	u32 desc = abi_desc_index(p, d), i;

	abi_lock(p, &p->fds.epoll_lock);
	for (i = 0; i < p->fds.high && d->watched; i++)
		if (abi_epoll_is(&p->fds.desc[i]))
			forget_in(p, &p->fds.desc[i], desc);
	abi_unlock(p, &p->fds.epoll_lock);
	abi_event_signal(p, &d->event, 0);
}

/* Edges ------------------------------------------------------------------ */

/* The events of `w` to poll for: all, or with EPOLLET those that may be new. */
static u32 fresh_bits(struct abi_proc *p, struct abi_watch *w)
{
	u32 wanted = (w->events & BITS) | ABI_POLLERR | ABI_POLLHUP, in, out;

	if (w->off)
		return 0;
	if (!(w->events & ABI_EPOLLET))
		return wanted;
	if (abi_desc_ops(watch_target(p, w))->timed)
		/* counts expirations that are due */
		abi_desc_ready(p, watch_target(p, w));
	abi_desc_edges(p, watch_target(p, w), &in, &out);
	if (w->seen_in != in)
		w->last &= ~(u32)(IN_BITS | ABI_POLLHUP | ABI_POLLERR);
	if (w->seen_out != out)
		w->last &= ~(u32)(OUT_BITS | ABI_POLLHUP | ABI_POLLERR);
	w->seen_in = in;
	w->seen_out = out;
	/*
	 * A host always reports errors and hang-ups. One that was reported
	 * before would end every wait at once, without a result.
	 */
	if (abi_desc_ops(watch_target(p, w))->polled && w->last & LASTING)
		return 0;
	return wanted & ~w->last;
}

/* `told` are the bits reported to the guest. */
static void note_reported(struct abi_proc *p, struct abi_watch *w, u32 reported)
{
	struct abi_event *e = &watch_target(p, w)->event;
	u32 spent = (reported & (IN_BITS | LASTING) ? ABI_EDGE_IN : 0) |
		    (reported & (OUT_BITS | LASTING) ? ABI_EDGE_OUT : 0);

	if (w->events & ABI_EPOLLONESHOT)
		w->off = 1;
	if (!(w->events & ABI_EPOLLET))
		return;
	w->last |= reported;
	__atomic_fetch_or(&e->spent, spent, __ATOMIC_SEQ_CST);
}

static u32 epoll_collect(struct abi_call *c, struct abi_set *set,
			 struct abi_desc *d, u32 tag, u32 nested, u32 depth)
{
	struct abi_watch *w;
	u32 i, index = tag, bits, ready = 0;

	abi_assert_locked(&c->p->fds.epoll_lock);
	for (i = d->watch; i; i = w->next) {
		w = watch_at(c->p, i);
		/*
		 * First join, then poll: an edge in between must wake this
		 * thread, even if there is nothing to poll now. abi_set_add
		 * joins again and remembers to leave, unless the set is full.
		 */
		if (set)
			abi_desc_join(c, watch_target(c->p, w), 1);
		bits = fresh_bits(c->p, w);
		if (!nested)
			index = i - 1;
		bits &= abi_set_add(c, set, watch_target(c->p, w), bits, index,
				    depth);
		if (set && set->overflow)
			abi_desc_join(c, watch_target(c->p, w), 0);
		if (bits)
			ready = ABI_POLLIN;
	}
	return ready;
}

const struct abi_desc_ops abi_epoll_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.unmoved = 1,
	.unpassed = 1,
	.collect = epoll_collect,
	.release = epoll_release,
};

/* Waiting ---------------------------------------------------------------- */

struct gather {
	u64 out; /* the guest's array */
	u32 count, max;
	s64 error;
};

static void report_event(struct abi_call *c, struct gather *g,
			 struct abi_watch *w, u32 bits)
{
	struct abi_epoll_event event = {bits, w->data};

	if (!bits || g->count >= g->max || g->error)
		return;
	g->error = ABI_PUT(c->p, g->out + g->count * sizeof(event), &event);
	if (g->error)
		return;
	note_reported(c->p, w, bits);
	g->count++;
}

/* Whether the entry still matches what the sleeping thread polls. */
static int is_same(struct abi_proc *p, const struct abi_set_item *item)
{
	const struct abi_watch *w = &p->fds.watch[item->tag];

	return w->used && (item->nested ||
			   p->fds.desc[w->desc].handle == item->poll.handle);
}

/* Converts what the host reported to bits for each entry of `d`. */
static u32 host_bits(struct abi_proc *p, const struct abi_set *set, u32 index)
{
	const struct abi_set_item *item;
	u32 i, bits = 0;

	for (i = 0; i < set->items; i++) {
		item = &set->item[i];
		if (item->tag != index || !item->poll.revents ||
		    !is_same(p, item))
			continue;
		bits |= item->nested ? ABI_POLLIN : item->poll.revents;
	}
	return bits;
}

/* The events that abi knows without the host. */
static u32 own_bits(struct abi_call *c, struct abi_desc *d)
{
	return abi_desc_ops(d)->polled ? 0 : abi_set_add(c, 0, d, BITS, 0, 1);
}

/* The caller holds the lock. Begins with the entries after `d->code`, so that
 * each gets its turn. */
static void collect_events(struct abi_call *c, struct abi_desc *d,
			   struct abi_set *set, struct gather *g)
{
	u32 round, i, skip = d->code, place, bits;
	struct abi_watch *w;

	abi_assert_locked(&c->p->fds.epoll_lock);
	for (round = 0; round < 2; round++) {
		place = 0;
		for (i = d->watch; i; i = w->next, place++) {
			w = watch_at(c->p, i);
			if ((place < skip) != round || g->count >= g->max)
				continue;
			bits = fresh_bits(c->p, w);
			if (!bits)
				continue;
			bits &= own_bits(c, watch_target(c->p, w)) |
				host_bits(c->p, set, i - 1);
			report_event(c, g, w, bits);
			d->code = place + 1;
		}
	}
	if (d->code >= place)
		d->code = 0;
}

/* Polls once, and sleeps if nothing is ready. */
static s64 look_once(struct abi_call *c, struct abi_desc *d,
		     struct abi_set *set, struct gather *g, u64 deadline)
{
	struct abi_lock *lock = &c->p->fds.epoll_lock;
	u32 ready;
	s64 slept;

	abi_desc_hold(c->p, d);
	set->hold[set->holds++] = (u16)abi_desc_index(c->p, d);
	abi_event_join(c, &d->event);
	abi_lock(c->p, lock);
	ready = epoll_collect(c, set, d, 0, 0, 0);
	abi_unlock(c->p, lock);
	slept = abi_set_sleep(c, set, ready, deadline);
	abi_lock(c->p, lock);
	collect_events(c, d, set, g);
	abi_unlock(c->p, lock);
	abi_set_reset(c, set);
	return slept;
}

static s64 run_wait(struct abi_call *c, struct abi_desc *d, struct abi_set *set,
		    u64 deadline)
{
	struct gather g = {c->a[1], 0, (u32)c->a[2], 0};
	u32 rounds = 0;
	s64 slept;

	abi_wait_begin(c, 0);
	do
		slept = look_once(c, d, set, &g, deadline);
	while (!g.count && !g.error && !slept &&
	       abi_set_again(c, deadline, &rounds));
	if (g.count)
		return g.count;
	if (g.error)
		return g.error;
	return slept == -LINUX_ETIMEDOUT ? 0 : slept;
}

static s64 run_small(struct abi_call *c, struct abi_desc *d, u64 deadline)
{
	struct abi_set_item item[ABI_SET_SMALL];
	struct abi_poll list[ABI_SET_SMALL];
	u16 held[ABI_SET_SMALL];
	struct abi_set set = {.size = ABI_SET_SMALL,
			      .item = item,
			      .hold = held,
			      .list = list,
			      .due = ABI_FOREVER};

	return run_wait(c, d, &set, deadline);
}

static s64 run_large(struct abi_call *c, struct abi_desc *d, u64 deadline)
{
	struct abi_set_space *space = abi_set_space_take(c->p);
	struct abi_set set;
	s64 result;

	if (!space)
		return -LINUX_ENOMEM;
	abi_set_init_large(&set, space);
	result = run_wait(c, d, &set, deadline);
	abi_set_space_drop(c->p, space);
	return result;
}

static s64 epoll_any(struct abi_call *c, u64 deadline)
{
	struct abi_desc *d;
	s64 result;

	if ((s32)c->a[2] <= 0 || (u32)c->a[2] > 0x7fffffff / 12)
		return -LINUX_EINVAL;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
	result = -LINUX_EINVAL;
	if (abi_epoll_is(d)) {
		result = run_small(c, d, deadline);
		if (result == -LINUX_ENOMEM)
			result = run_large(c, d, deadline);
	}
	abi_desc_put(c->p, d);
	return result;
}

static u64 ms_deadline(struct abi_call *c, s32 ms)
{
	if (ms < 0)
		return ABI_FOREVER;
	return ms ? abi_wait_deadline(c->p, (u64)ms * 1000000) : 0;
}

s64 abi_sys_epoll_wait(struct abi_call *c)
{
	return epoll_any(c, ms_deadline(c, (s32)c->a[3]));
}

s64 abi_sys_epoll_pwait(struct abi_call *c)
{
	s64 error = abi_signal_mask_push(c, c->a[4], c->a[5]);

	return error ? error : epoll_any(c, ms_deadline(c, (s32)c->a[3]));
}

s64 abi_sys_epoll_pwait2(struct abi_call *c)
{
	u64 deadline = ABI_FOREVER, ns;
	s64 error = 0;

	if (c->a[3]) {
		error = abi_time_get(c->p, c->a[3], &ns);
		if (!error)
			deadline = ns ? abi_wait_deadline(c->p, ns) : 0;
	}
	if (!error)
		error = abi_signal_mask_push(c, c->a[4], c->a[5]);
	return error ? error : epoll_any(c, deadline);
}

/* Control ---------------------------------------------------------------- */

static s64 create_epoll(struct abi_call *c, u32 cloexec)
{
	struct abi_desc *d = abi_desc_new(c->p, ABI_DESC_EPOLL, ABI_O_RDWR);

	if (!d)
		return -LINUX_ENFILE;
	abi_strcpy(d->path, "anon_inode:[eventpoll]", 32);
	return abi_desc_install(c->p, d, 0, cloexec);
}

s64 abi_sys_epoll_create(struct abi_call *c)
{
	return (s32)c->a[0] > 0 ? create_epoll(c, 0) : -LINUX_EINVAL;
}

s64 abi_sys_epoll_create1(struct abi_call *c)
{
	if ((u32)c->a[0] & ~ABI_O_CLOEXEC)
		return -LINUX_EINVAL;
	return create_epoll(c, (u32)c->a[0]);
}

static u32 *find_watch(struct abi_proc *p, struct abi_desc *epoll, u32 fd,
		       u32 desc)
{
	u32 *link = &epoll->watch;

	while (*link && (watch_at(p, *link)->fd != fd ||
			 watch_at(p, *link)->desc != desc))
		link = &watch_at(p, *link)->next;
	return link;
}

/* Whether `to` can be reached from `from`, or the chain is too long. */
static int epoll_reaches(struct abi_proc *p, struct abi_desc *from,
			 const struct abi_desc *to, u32 depth)
{
	struct abi_watch *w;
	u32 i;

	if (from == to || depth > 4)
		return 1;
	if (!abi_epoll_is(from))
		return 0;
	for (i = from->watch; i; i = w->next) {
		w = watch_at(p, i);
		if (abi_epoll_is(watch_target(p, w)) &&
		    epoll_reaches(p, watch_target(p, w), to, depth + 1))
			return 1;
	}
	return 0;
}

static void set_watch(struct abi_watch *w, const struct abi_epoll_event *e)
{
	w->events = e->events;
	w->data = e->data;
	w->off = 0;
	w->last = 0;
}

static s64 add_watch(struct abi_proc *p, struct abi_desc *epoll,
		     struct abi_desc *d, u32 fd,
		     const struct abi_epoll_event *event)
{
	u32 *link = find_watch(p, epoll, fd, abi_desc_index(p, d)), i;
	struct abi_watch *w;

	if (*link)
		return -LINUX_EEXIST;
	if (epoll_reaches(p, d, epoll, 0))
		return -LINUX_ELOOP;
	for (i = 0; i < ABI_WATCH_MAX && p->fds.watch[i].used; i++)
		;
	if (i == ABI_WATCH_MAX)
		return -LINUX_ENOSPC;
	w = &p->fds.watch[i];
	*w = (struct abi_watch){
		.used = 1, .fd = fd, .desc = abi_desc_index(p, d)};
	set_watch(w, event);
	d->watched++;
	*link = i + 1;
	return 0;
}

static s64 change_watch(struct abi_call *c, struct abi_desc *epoll,
			struct abi_desc *d, const struct abi_epoll_event *event)
{
	u32 fd = (u32)c->a[2];
	u32 *link = find_watch(c->p, epoll, fd, abi_desc_index(c->p, d));

	switch ((u32)c->a[1]) {
	case CTL_ADD:
		return add_watch(c->p, epoll, d, fd, event);
	case CTL_DEL:
		if (!*link)
			return -LINUX_ENOENT;
		unlink_watch(c->p, link);
		return 0;
	case CTL_MOD:
		if (!*link)
			return -LINUX_ENOENT;
		if (watch_at(c->p, *link)->events & ABI_EPOLLEXCLUSIVE)
			return -LINUX_EINVAL;
		set_watch(watch_at(c->p, *link), event);
		return 0;
	default:
		return -LINUX_EINVAL;
	}
}

/* Regular files and directories cannot be watched: they are always ready. */
static int is_watchable(const struct abi_desc *d)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	return ops->polled || ops->ready || ops->collect;
}

/*
 * Whether `d` still has a number: another thread may have closed it. If the
 * last one was closed, abi_epoll_forget has run, or waits for epoll_lock: it
 * would remove an entry made before, but one made afterwards would outlive `d`.
 */
static int has_number(struct abi_proc *p, const struct abi_desc *d)
{
	u32 numbers;

	abi_lock(p, &p->fds.lock);
	numbers = d->numbers;
	abi_unlock(p, &p->fds.lock);
	return numbers > 0;
}

/* Snapshots -------------------------------------------------------------- */

const struct abi_watch *abi_epoll_entry(const struct abi_proc *p,
					const struct abi_desc *d, u32 i)
{
	u32 at = abi_epoll_is(d) ? d->watch : 0;

	while (at && i--)
		at = p->fds.watch[at - 1].next;
	return at ? &p->fds.watch[at - 1] : 0;
}

s64 abi_epoll_restore(struct abi_proc *p, struct abi_desc *d,
		      const struct abi_watch *from)
{
	struct abi_epoll_event event = {from->events, from->data};
	struct abi_desc *target = &p->fds.desc[from->desc];
	s64 result = -LINUX_EINVAL;

	abi_lock(p, &p->fds.epoll_lock);
	if (d != target && abi_epoll_is(d) && is_watchable(target))
		result = add_watch(p, d, target, from->fd, &event);
	if (!result)
		watch_at(p, *find_watch(p, d, from->fd, from->desc))->off =
			from->off != 0;
	abi_unlock(p, &p->fds.epoll_lock);
	return result;
}

static s64 control_epoll(struct abi_call *c, struct abi_desc *epoll,
			 struct abi_desc *d)
{
	struct abi_epoll_event event = {0, 0};
	s64 result;

	if ((u32)c->a[1] != CTL_DEL && ABI_GET(c->p, &event, c->a[3]))
		return -LINUX_EFAULT;
	if (!is_watchable(d))
		return -LINUX_EPERM;
	if (epoll == d || !abi_epoll_is(epoll))
		return -LINUX_EINVAL;
	if (event.events & ABI_EPOLLEXCLUSIVE && abi_epoll_is(d))
		return -LINUX_EINVAL;
	abi_lock(c->p, &c->p->fds.epoll_lock);
	result = has_number(c->p, d) ? change_watch(c, epoll, d, &event)
				     : -LINUX_EBADF;
	abi_unlock(c->p, &c->p->fds.epoll_lock);
	if (!result)
		abi_event_signal(c->p, &epoll->event, 0);
	return result;
}

s64 abi_sys_epoll_ctl(struct abi_call *c)
{
	struct abi_desc *epoll = abi_desc_get(c->p, c->a[0]);
	struct abi_desc *d = abi_desc_get(c->p, c->a[2]);
	s64 result = epoll && d ? control_epoll(c, epoll, d) : -LINUX_EBADF;

	if (epoll)
		abi_desc_put(c->p, epoll);
	if (d)
		abi_desc_put(c->p, d);
	return result;
}
