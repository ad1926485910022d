// SPDX-License-Identifier: MIT
/* Owns poll, ppoll, select and pselect6 on top of poll.c. No state. */
#include "epoll.h"
#include "poll.h"
#include "wait.h"
#include "abi/fs/desc.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"

/* A poll in progress: its entries, and the set of this round. */
struct round {
	struct abi_pollfd_item *fd;
	u32 count;
	struct abi_set set;
	struct abi_set_space *space; /* for large ones */
};

static void open_all(struct abi_call *c, struct round *r)
{
	struct abi_desc *d;
	u32 i;

	for (i = 0; i < r->count; i++) {
		r->fd[i].desc = 0;
		if (r->fd[i].fd < 0)
			continue;
		d = abi_desc_get(c->p, (u32)r->fd[i].fd);
		if (d)
			r->fd[i].desc = abi_desc_index(c->p, d) + 1;
	}
}

static void close_all(struct abi_call *c, struct round *r)
{
	u32 i;

	for (i = 0; i < r->count; i++)
		if (r->fd[i].desc)
			abi_desc_put(c->p, &c->p->fds.desc[r->fd[i].desc - 1]);
}

static u32 look_at(struct abi_call *c, struct round *r, u32 i, u32 wanted)
{
	struct abi_desc *d = &c->p->fds.desc[r->fd[i].desc - 1];
	u32 ready, epoll = (u32)abi_epoll_is(d);

	if (epoll)
		abi_lock(c->p, &c->p->fds.epoll_lock);
	ready = abi_set_add(c, &r->set, d, wanted, i, 0);
	if (epoll)
		abi_unlock(c->p, &c->p->fds.epoll_lock);
	return ready & wanted;
}

static u32 wanted_of(const struct abi_pollfd_item *fd)
{
	return fd->events | ABI_POLLERR | ABI_POLLHUP;
}

/* Joins all descriptions; returns what abi knows to be ready. */
static u32 gather_ready(struct abi_call *c, struct round *r)
{
	u32 i, ready = 0;

	for (i = 0; i < r->count; i++) {
		r->fd[i].revents = 0;
		if (r->fd[i].fd < 0)
			continue;
		r->fd[i].revents =
			(u16)(r->fd[i].desc
				      ? look_at(c, r, i, wanted_of(&r->fd[i]))
				      : ABI_POLLNVAL);
		ready += !!r->fd[i].revents;
	}
	return ready;
}

/* Adds what the host reported; returns the number of entries with an event. */
static u32 collect_ready(struct round *r)
{
	struct abi_set_item *item;
	struct abi_pollfd_item *fd;
	u32 i, ready = 0;

	for (i = 0; i < r->set.items; i++) {
		item = &r->set.item[i];
		fd = &r->fd[item->tag];
		if (!item->poll.revents)
			continue;
		fd->revents |=
			(u16)((item->nested ? ABI_POLLIN : item->poll.revents) &
			      wanted_of(fd));
	}
	for (i = 0; i < r->count; i++)
		ready += !!r->fd[i].revents;
	return ready;
}

static s64 run_poll(struct abi_call *c, struct round *r, u64 deadline)
{
	u32 ready, rounds = 0;
	s64 slept;

	open_all(c, r);
	abi_wait_begin(c, 0);
	for (;;) {
		ready = gather_ready(c, r);
		slept = abi_set_sleep(c, &r->set, ready, deadline);
		ready = collect_ready(r);
		abi_set_reset(c, &r->set);
		if (ready || slept || !abi_set_again(c, deadline, &rounds))
			break;
	}
	close_all(c, r);
	if (ready)
		return ready;
	if (slept == -LINUX_EINTR)
		return -ABI_ERESTARTNOHAND;
	return slept == -LINUX_ETIMEDOUT ? 0 : slept;
}

static s64 load_pollfds(struct abi_call *c, struct round *r)
{
	struct abi_pollfd one;
	u32 i;

	for (i = 0; i < r->count; i++) {
		if (ABI_GET(c->p, &one, c->a[0] + i * sizeof(one)))
			return -LINUX_EFAULT;
		r->fd[i].fd = one.fd;
		r->fd[i].events = one.events;
	}
	return 0;
}

static s64 store_pollfds(struct abi_call *c, const struct round *r)
{
	u32 i;

	for (i = 0; i < r->count; i++)
		if (ABI_PUT(c->p, c->a[0] + i * 8 + 6, &r->fd[i].revents))
			return -LINUX_EFAULT;
	return 0;
}

static s64 poll_fds(struct abi_call *c, struct round *r, u64 deadline)
{
	s64 result = load_pollfds(c, r);

	if (result)
		return result;
	result = run_poll(c, r, deadline);
	if (result >= 0 && store_pollfds(c, r))
		return -LINUX_EFAULT;
	return result;
}

static s64 poll_small(struct abi_call *c, u64 deadline)
{
	struct abi_pollfd_item fd[ABI_SET_SMALL];
	struct abi_set_item item[ABI_SET_SMALL];
	struct abi_poll list[ABI_SET_SMALL];
	u16 held[ABI_SET_SMALL];
	struct round r = {.fd = fd, .count = (u32)c->a[1]};

	r.set = (struct abi_set){.size = ABI_SET_SMALL,
				 .item = item,
				 .hold = held,
				 .list = list,
				 .due = ABI_FOREVER};
	return poll_fds(c, &r, deadline);
}

static s64 poll_large(struct abi_call *c, u64 deadline)
{
	struct abi_set_space *space = abi_set_space_take(c->p);
	struct round r = {.count = (u32)c->a[1], .space = space};
	s64 result;

	if (!space)
		return -LINUX_ENOMEM;
	r.fd = space->fd;
	abi_set_init_large(&r.set, space);
	result = poll_fds(c, &r, deadline);
	abi_set_space_drop(c->p, space);
	return result;
}

static s64 poll_any(struct abi_call *c, u64 deadline)
{
	s64 result;

	if ((u32)c->a[1] > ABI_FD_MAX)
		return -LINUX_EINVAL;
	if ((u32)c->a[1] > ABI_SET_SMALL)
		return poll_large(c, deadline);
	result = poll_small(c, deadline);
	/* a watched epoll may need more entries than this poll has */
	return result == -LINUX_ENOMEM ? poll_large(c, deadline) : result;
}

s64 abi_sys_poll(struct abi_call *c)
{
	s32 ms = (s32)c->a[2];
	u64 deadline = ABI_FOREVER;

	if (!ms)
		deadline = 0;
	else if (ms > 0)
		deadline = abi_thread_deadline(c, (u64)ms * 1000000);
	return poll_any(c, deadline);
}

/* Reads a timeout from guest memory: its deadline. */
static s64 get_deadline(struct abi_call *c, u64 gaddr, u64 *deadline)
{
	s64 error;
	u64 ns;

	*deadline = ABI_FOREVER;
	if (!gaddr)
		return 0;
	error = abi_time_get(c->p, gaddr, &ns);
	if (!error)
		*deadline = ns ? abi_thread_deadline(c, ns) : 0;
	return error;
}

/* ppoll and pselect6 write the remaining time, if the memory is writable. */
static void put_left(struct abi_call *c, u64 gaddr, u64 deadline)
{
	u64 now;

	if (!gaddr || deadline == ABI_FOREVER)
		return;
	now = (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC);
	(void)abi_time_put(c->p, gaddr, deadline > now ? deadline - now : 0);
}

s64 abi_sys_ppoll(struct abi_call *c)
{
	u64 deadline;
	s64 result = get_deadline(c, c->a[2], &deadline);

	if (!result)
		result = abi_signal_mask_push(c, c->a[3], c->a[4]);
	if (result)
		return result;
	result = poll_any(c, deadline);
	put_left(c, c->a[2], deadline);
	return result;
}

/* select ---------------------------------------------------------------- */

#define SELECT_IN                                                              \
	(ABI_POLLIN | ABI_POLLRDNORM | ABI_POLLRDBAND | ABI_POLLHUP |          \
	 ABI_POLLERR)
#define SELECT_OUT (ABI_POLLOUT | ABI_POLLWRNORM | ABI_POLLWRBAND | ABI_POLLERR)

struct bits {
	u64 word[3][ABI_FD_MAX / 64];
};

static s64 load_bits(struct abi_call *c, u32 n, struct bits *bits)
{
	u64 bytes = (n + 63) / 64 * 8;
	u32 i;

	abi_memset(bits, 0, sizeof(*bits));
	for (i = 0; i < 3; i++)
		if (c->a[1 + i] &&
		    abi_user_get(c->p, bits->word[i], c->a[1 + i], bytes))
			return -LINUX_EFAULT;
	return 0;
}

static s64 store_bits(struct abi_call *c, u32 n, const struct bits *bits)
{
	u64 bytes = (n + 63) / 64 * 8;
	u32 i;

	for (i = 0; i < 3; i++)
		if (c->a[1 + i] &&
		    abi_user_put(c->p, c->a[1 + i], bits->word[i], bytes))
			return -LINUX_EFAULT;
	return 0;
}

static u32 has_bit(const struct bits *bits, u32 which, u32 fd)
{
	return bits->word[which][fd / 64] >> fd % 64 & 1;
}

static void to_lines(struct round *r, u32 n, const struct bits *bits)
{
	struct abi_pollfd_item *line;
	u32 fd;

	for (fd = 0; fd < n; fd++) {
		u32 events = has_bit(bits, 0, fd) * (SELECT_IN & 0xffu) |
			     has_bit(bits, 1, fd) * ABI_POLLOUT |
			     has_bit(bits, 2, fd) * ABI_POLLPRI;

		if (!events)
			continue;
		line = &r->fd[r->count++];
		line->fd = (s32)fd;
		line->events = (u16)(events & ~(ABI_POLLERR | ABI_POLLHUP));
	}
}

/* Converts the result to bits; returns their number, or -EBADF. */
static s64 from_lines(const struct round *r, struct bits *bits)
{
	static const u32 mask[3] = {SELECT_IN, SELECT_OUT, ABI_POLLPRI};
	struct bits asked = *bits;
	s64 count = 0;
	u32 i, which, fd;

	abi_memset(bits, 0, sizeof(*bits));
	for (i = 0; i < r->count; i++) {
		fd = (u32)r->fd[i].fd;
		if (r->fd[i].revents & ABI_POLLNVAL)
			return -LINUX_EBADF;
		for (which = 0; which < 3; which++) {
			if (!has_bit(&asked, which, fd) ||
			    !(r->fd[i].revents & mask[which]))
				continue;
			bits->word[which][fd / 64] |= 1ull << fd % 64;
			count++;
		}
	}
	return count;
}

/* Replaces `bits` by the result; after an error they are unchanged. */
static s64 select_lines(struct abi_call *c, struct round *r, u32 n,
			struct bits *bits, u64 deadline)
{
	s64 result;

	to_lines(r, n, bits);
	result = run_poll(c, r, deadline);
	return result < 0 ? result : from_lines(r, bits);
}

/* Many threads sleep in select for few descriptors or none, and need no array
 * of the pool. */
static s64 select_small(struct abi_call *c, u32 n, struct bits *bits,
			u64 deadline)
{
	struct abi_pollfd_item fd[ABI_SET_SMALL];
	struct abi_set_item item[ABI_SET_SMALL];
	struct abi_poll list[ABI_SET_SMALL];
	u16 held[ABI_SET_SMALL];
	struct round r = {.fd = fd};

	r.set = (struct abi_set){.size = ABI_SET_SMALL,
				 .item = item,
				 .hold = held,
				 .list = list,
				 .due = ABI_FOREVER};
	return select_lines(c, &r, n, bits, deadline);
}

static s64 select_large(struct abi_call *c, u32 n, struct bits *bits,
			u64 deadline)
{
	struct abi_set_space *space = abi_set_space_take(c->p);
	struct round r = {.space = space};
	s64 result;

	if (!space)
		return -LINUX_ENOMEM;
	r.fd = space->fd;
	abi_set_init_large(&r.set, space);
	result = select_lines(c, &r, n, bits, deadline);
	abi_set_space_drop(c->p, space);
	return result;
}

static u32 bits_lines(const struct bits *bits)
{
	u32 i, count = 0;
	u64 word;

	for (i = 0; i < ABI_FD_MAX / 64; i++) {
		word = bits->word[0][i] | bits->word[1][i] | bits->word[2][i];
		for (; word; word &= word - 1)
			count++;
	}
	return count;
}

static s64 select_any(struct abi_call *c, u64 deadline)
{
	u32 n = (u32)c->a[0];
	struct bits bits;
	s64 result;

	if ((s32)n < 0)
		return -LINUX_EINVAL;
	if (n > ABI_FD_MAX)
		n = ABI_FD_MAX;
	result = load_bits(c, n, &bits);
	if (result)
		return result;
	result = -LINUX_ENOMEM;
	if (bits_lines(&bits) <= ABI_SET_SMALL)
		result = select_small(c, n, &bits, deadline);
	/* A watched epoll may need more than the lines of this select. */
	if (result == -LINUX_ENOMEM)
		result = select_large(c, n, &bits, deadline);
	if (result >= 0 && store_bits(c, n, &bits))
		result = -LINUX_EFAULT;
	return result;
}

s64 abi_sys_select(struct abi_call *c)
{
	u64 deadline = ABI_FOREVER, ns, now;
	struct abi_timeval tv;
	s64 result;

	if (c->a[4]) {
		if (ABI_GET(c->p, &tv, c->a[4]))
			return -LINUX_EFAULT;
		if (tv.sec < 0 || tv.usec < 0)
			return -LINUX_EINVAL;
		if (tv.sec < 1ll << 32 && tv.usec < 1ll << 40) {
			ns = (u64)tv.sec * ABI_NS + (u64)tv.usec * 1000;
			deadline = ns ? abi_thread_deadline(c, ns) : 0;
		}
	}
	result = select_any(c, deadline);
	if (!c->a[4] || deadline == ABI_FOREVER)
		return result;
	now = (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC);
	ns = deadline > now ? deadline - now : 0;
	tv = (struct abi_timeval){(s64)(ns / ABI_NS),
				  (s64)(ns % ABI_NS / 1000)};
	(void)ABI_PUT(c->p, c->a[4], &tv);
	return result;
}

s64 abi_sys_pselect6(struct abi_call *c)
{
	struct {
		u64 mask, size;
	} pack = {0, 0};
	u64 deadline;
	s64 result = get_deadline(c, c->a[4], &deadline);

	if (!result && c->a[5] && ABI_GET(c->p, &pack, c->a[5]))
		result = -LINUX_EFAULT;
	if (!result)
		result = abi_signal_mask_push(c, pack.mask, pack.size);
	if (result)
		return result;
	result = select_any(c, deadline);
	put_left(c, c->a[4], deadline);
	return result;
}
