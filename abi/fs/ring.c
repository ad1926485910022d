// SPDX-License-Identifier: MIT
/*
 * Owns rings. ring->lock guards the bytes and the counts of ends; fds->lock
 * guards which rings are in use. Copies from and to guest memory are made under
 * ring->lock; if one faults, the ring is unchanged.
 */
#include "ring.h"
#include "desc.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define MASK (ABI_RING_SIZE - 1)

struct abi_ring *abi_ring_at(struct abi_proc *p, u32 ring)
{
	return &p->fds.ring[ring - 1];
}

u32 abi_ring_new(struct abi_proc *p)
{
	struct abi_ring *r;
	u32 i, found = 0;

	abi_lock(p, &p->fds.lock);
	for (i = 0; i < ABI_RING_MAX && !found; i++) {
		r = &p->fds.ring[i];
		if (r->used)
			continue;
		r->used = 1;
		r->readers = r->writers = 1;
		r->start = r->len = r->eof = r->broken = 0;
		r->size = ABI_RING_SIZE;
		r->unnamed = (struct abi_unnamed){0};
		abi_memset(&r->event, 0, sizeof(r->event));
		found = i + 1;
		if (p->fds.ring_high < found)
			p->fds.ring_high = found;
	}
	abi_unlock(p, &p->fds.lock);
	return found;
}

void abi_ring_leave(struct abi_proc *p, u32 ring, u32 writer)
{
	struct abi_ring *r = abi_ring_at(p, ring);
	u32 empty;

	abi_lock(p, &r->lock);
	if (writer)
		r->writers--;
	else
		r->readers--;
	empty = !r->readers && !r->writers;
	abi_unlock(p, &r->lock);
	abi_event_signal(p, &r->event, ABI_EDGE_IN | ABI_EDGE_OUT);
	if (!empty)
		return;
	abi_lock(p, &p->fds.lock);
	r->used = 0;
	abi_unlock(p, &p->fds.lock);
}

/* The caller holds ring->lock. Whether no more bytes will be written, or
 * read. */
static int is_ended(const struct abi_ring *r)
{
	abi_assert_locked(&r->lock);
	return !r->writers || r->eof;
}

static int is_broken(const struct abi_ring *r)
{
	abi_assert_locked(&r->lock);
	return !r->readers || r->broken || r->eof;
}

static s64 copy_out(struct abi_ring *r, void *to, u64 n, u32 skip)
{
	u32 start = (r->start + skip) & MASK;
	u64 first = ABI_RING_SIZE - start;

	if (first > n)
		first = n;
	if (abi_user_move(to, r->data + start, first) ||
	    abi_user_move((u8 *)to + first, r->data, n - first))
		return -LINUX_EFAULT;
	return (s64)n;
}

static s64 copy_in(struct abi_ring *r, const void *from, u64 n)
{
	u32 end = (r->start + r->len) & MASK;
	u64 first = ABI_RING_SIZE - end;

	if (first > n)
		first = n;
	if (abi_user_move(r->data + end, from, first) ||
	    abi_user_move(r->data, (const u8 *)from + first, n - first))
		return -LINUX_EFAULT;
	r->len += (u32)n;
	return (s64)n;
}

/* Reads what is available without waiting: -EAGAIN, or 0 at the end of the
 * stream. */
static s64 ring_get(struct abi_proc *p, struct abi_ring *r, struct abi_span *s,
		    u32 peek)
{
	u32 done = 0;
	s64 n = 0, result;
	void *at;

	abi_lock(p, &r->lock);
	if (r->moved) {
		abi_unlock(p, &r->lock);
		return -ABI_ERESTARTNOINTR; /* the description has changed */
	}
	while (done < r->len) {
		n = abi_span_chunk(p, s, &at);
		if (n <= 0)
			break;
		if (n > r->len - done)
			n = r->len - done;
		n = copy_out(r, at, (u64)n, done);
		if (n < 0)
			break;
		abi_span_skip(s, (u64)n);
		done += (u32)n;
	}
	result = -LINUX_EAGAIN;
	if (done || n < 0)
		result = done ? (s64)done : n;
	else if (!s->left || is_ended(r) || r->broken)
		result = 0;
	if (!peek) {
		r->start = (r->start + done) & MASK;
		r->len -= done;
	}
	abi_unlock(p, &r->lock);
	if (done && !peek)
		abi_event_signal(p, &r->event, ABI_EDGE_OUT);
	return result;
}

/*
 * Writes what fits now. Up to PIPE_BUF bytes are written all at once or not at
 * all (pipe(7)); `first` is false for the rest of a longer write.
 */
static s64 ring_put(struct abi_proc *p, struct abi_ring *r, struct abi_span *s,
		    u32 first)
{
	u64 room;
	u32 done = 0;
	s64 n = 0, result;
	void *at;

	abi_lock(p, &r->lock);
	if (r->moved) {
		abi_unlock(p, &r->lock);
		return -ABI_ERESTARTNOINTR;
	}
	room = r->size - r->len;
	if (first && s->left <= ABI_PIPE_BUF && room < s->left)
		room = 0;
	while (!is_broken(r) && done < room) {
		n = abi_span_chunk(p, s, &at);
		if (n <= 0)
			break;
		if ((u64)n > room - done)
			n = (s64)(room - done);
		n = copy_in(r, at, (u64)n);
		if (n < 0)
			break;
		abi_span_skip(s, (u64)n);
		done += (u32)n;
	}
	result = is_broken(r) ? -LINUX_EPIPE : -LINUX_EAGAIN;
	if (done || n < 0)
		result = done ? (s64)done : n;
	abi_unlock(p, &r->lock);
	if (done)
		abi_event_signal(p, &r->event, ABI_EDGE_IN);
	return result;
}

s64 abi_ring_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 nonblock, u32 peek)
{
	struct abi_ring *r;
	u64 deadline;
	s64 n, slept = 0;

	if (!d->in)
		return -LINUX_EBADF;
	r = abi_ring_at(c->p, d->in);
	nonblock |= abi_desc_flags(d) & ABI_O_NONBLOCK;
	n = ring_get(c->p, r, s, peek);
	if (n != -LINUX_EAGAIN || nonblock)
		return n;
	deadline = abi_wait_deadline(c->p, d->recv_ns);
	abi_wait_begin(c, 1);
	abi_event_join(c, &r->event);
	for (;;) {
		n = ring_get(c->p, r, s, peek);
		if (n != -LINUX_EAGAIN || slept)
			break;
		slept = abi_wait_sleep(c, 0, 0, deadline);
	}
	abi_event_leave(c, &r->event);
	if (n == -LINUX_EAGAIN && slept == -LINUX_EINTR)
		return d->recv_ns ? -LINUX_EINTR : -ABI_ERESTARTSYS;
	return n;
}

/* Writes the rest, and waits for space; `done` bytes were written before. */
static s64 put_rest(struct abi_call *c, struct abi_desc *d, struct abi_ring *r,
		    struct abi_span *s, s64 done)
{
	u64 deadline = abi_wait_deadline(c->p, d->send_ns);
	s64 n = 0, slept = 0;

	abi_wait_begin(c, 1);
	abi_event_join(c, &r->event);
	while (s->left) {
		n = ring_put(c->p, r, s, !done);
		if (n > 0)
			done += n;
		else if (n != -LINUX_EAGAIN || slept)
			break;
		else
			slept = abi_wait_sleep(c, 0, 0, deadline);
	}
	abi_event_leave(c, &r->event);
	if (done)
		return done;
	if (n == -LINUX_EAGAIN && slept == -LINUX_EINTR)
		return d->send_ns ? -LINUX_EINTR : -ABI_ERESTARTSYS;
	return n;
}

s64 abi_ring_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 nonblock)
{
	struct abi_ring *r;
	s64 n;

	if (!d->out)
		return -LINUX_EBADF;
	if (!s->left)
		return 0;
	r = abi_ring_at(c->p, d->out);
	nonblock |= abi_desc_flags(d) & ABI_O_NONBLOCK;
	n = ring_put(c->p, r, s, 1);
	if (nonblock || !s->left || (n < 0 && n != -LINUX_EAGAIN))
		return n;
	return put_rest(c, d, r, s, n > 0 ? n : 0);
}

u32 abi_ring_state(struct abi_proc *p, u32 ring)
{
	struct abi_ring *r = abi_ring_at(p, ring);
	u32 state = 0;

	abi_lock(p, &r->lock);
	if (r->len)
		state |= ABI_RING_DATA;
	if (r->size - r->len >= ABI_PIPE_BUF)
		state |= ABI_RING_ROOM;
	if (!r->writers)
		state |= ABI_RING_NO_WRITER;
	if (!r->readers)
		state |= ABI_RING_NO_READER;
	if (is_ended(r) || r->broken)
		state |= ABI_RING_ENDED;
	if (is_broken(r))
		state |= ABI_RING_BROKEN;
	abi_unlock(p, &r->lock);
	return state;
}

u64 abi_ring_available(struct abi_proc *p, const struct abi_desc *d)
{
	struct abi_ring *r;
	u64 len;

	if (!d->in)
		return 0;
	r = abi_ring_at(p, d->in);
	abi_lock(p, &r->lock);
	len = r->len;
	abi_unlock(p, &r->lock);
	return len;
}

s64 abi_ring_resize(struct abi_proc *p, u32 ring, u64 bytes)
{
	struct abi_ring *r = abi_ring_at(p, ring);
	u32 size = SKEP_PAGE_SIZE;
	s64 result;

	while (size < bytes)
		size *= 2;
	abi_lock(p, &r->lock);
	if (bytes && size < r->len) {
		result = -LINUX_EBUSY;
	} else {
		if (bytes)
			r->size = size;
		result = r->size;
	}
	abi_unlock(p, &r->lock);
	if (bytes && result > 0)
		abi_event_signal(p, &r->event, ABI_EDGE_OUT);
	return result;
}

static void shut_end(struct abi_proc *p, u32 ring, u32 writer)
{
	struct abi_ring *r = abi_ring_at(p, ring);

	abi_lock(p, &r->lock);
	if (writer)
		r->eof = 1;
	else
		r->broken = 1;
	abi_unlock(p, &r->lock);
	abi_event_signal(p, &r->event, ABI_EDGE_IN | ABI_EDGE_OUT);
}

s64 abi_ring_shutdown(struct abi_proc *p, struct abi_desc *d, u32 how)
{
	if (how > 2)
		return -LINUX_EINVAL;
	if (how != 1)
		shut_end(p, d->in, 0);
	if (how != 0)
		shut_end(p, d->out, 1);
	return 0;
}

s64 abi_ring_move(struct abi_proc *p, u32 ring, s32 handle)
{
	struct abi_ring *r = abi_ring_at(p, ring);
	u32 first = ABI_RING_SIZE - r->start;
	struct abi_io io = {.buf = r->data + r->start, .offset = ABI_STREAM};
	s64 n = 0;

	abi_lock(p, &r->lock);
	if (!r->readers)
		r->len = 0;
	io.len = r->len < first ? r->len : first;
	if (io.len)
		n = p->host->file_write(handle, &io);
	if (n == (s64)io.len && r->len > first) {
		io.buf = r->data;
		io.len = r->len - first;
		n = p->host->file_write(handle, &io);
	}
	if (n == (s64)io.len)
		r->moved = 1;
	abi_unlock(p, &r->lock);
	return n < 0 ? n : r->moved ? 0 : -LINUX_EIO;
}

void abi_ring_keep(struct abi_proc *p, u32 ring)
{
	struct abi_ring *r = abi_ring_at(p, ring);

	abi_lock(p, &r->lock);
	r->moved = 0;
	abi_unlock(p, &r->lock);
}

void abi_ring_free(struct abi_proc *p, u32 ring)
{
	if (!ring)
		return;
	abi_ring_leave(p, ring, 0);
	abi_ring_leave(p, ring, 1);
}

s64 abi_ring_desc_read(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_ring_read(c, d, s, 0, 0);
}

s64 abi_ring_desc_write(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_ring_write(c, d, s, 0);
}

s64 abi_ring_desc_available(struct abi_call *c, struct abi_desc *d)
{
	return (s64)abi_ring_available(c->p, d);
}

int abi_ring_desc_release(struct abi_proc *p, struct abi_desc *d)
{
	if (d->in)
		abi_ring_leave(p, d->in, 0);
	if (d->out)
		abi_ring_leave(p, d->out, 1);
	return 1;
}
