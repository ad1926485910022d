// SPDX-License-Identifier: MIT
/*
 * Owns rings, pipes and socket pairs. ring->lock guards the bytes and the
 * counts of ends; fds->lock guards which rings are in use. Copies from and to
 * guest memory happen under ring->lock; what faults in one leaves the ring as
 * it was.
 */
#include "pipe.h"
#include "fd.h"
#include "ops.h"
#include "abi/include/errno.h"
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

/* A ring with one reader and one writer: index + 1, or 0. */
static u32 ring_new(struct abi_proc *p)
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
		abi_memset(&r->event, 0, sizeof(r->event));
		found = i + 1;
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

/* ring->lock is held. Will no byte be written, or read, any more? */
static int is_ended(const struct abi_ring *r)
{
	return !r->writers || r->eof;
}

static int is_broken(const struct abi_ring *r)
{
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
		return -ABI_EFAULT;
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
		return -ABI_EFAULT;
	r->len += (u32)n;
	return (s64)n;
}

/* What is there now, without a wait: -EAGAIN, 0 at the end of the stream. */
static s64 ring_get(struct abi_proc *p, struct abi_ring *r, struct abi_span *s,
		    u32 peek)
{
	u32 done = 0;
	s64 n = 0, result;
	void *at;

	abi_lock(p, &r->lock);
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
	result = -ABI_EAGAIN;
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
 * What fits now. At most PIPE_BUF bytes go in together or not at all
 * (pipe(7)); `first` is false for the rest of a longer write.
 */
static s64 ring_put(struct abi_proc *p, struct abi_ring *r, struct abi_span *s,
		    u32 first)
{
	u64 room;
	u32 done = 0;
	s64 n = 0, result;
	void *at;

	abi_lock(p, &r->lock);
	room = ABI_RING_SIZE - r->len;
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
	result = is_broken(r) ? -ABI_EPIPE : -ABI_EAGAIN;
	if (done || n < 0)
		result = done ? (s64)done : n;
	abi_unlock(p, &r->lock);
	if (done)
		abi_event_signal(p, &r->event, ABI_EDGE_IN);
	return result;
}

s64 abi_pipe_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 nonblock, u32 peek)
{
	struct abi_ring *r;
	u64 deadline;
	s64 n, slept = 0;

	if (!d->in)
		return -ABI_EBADF;
	r = abi_ring_at(c->p, d->in);
	nonblock |= abi_desc_flags(d) & ABI_O_NONBLOCK;
	n = ring_get(c->p, r, s, peek);
	if (n != -ABI_EAGAIN || nonblock)
		return n;
	deadline = abi_wait_deadline(c->p, d->recv_ns);
	abi_wait_begin(c, 1);
	abi_event_join(c, &r->event);
	for (;;) {
		n = ring_get(c->p, r, s, peek);
		if (n != -ABI_EAGAIN || slept)
			break;
		slept = abi_wait_sleep(c, 0, 0, deadline);
	}
	abi_event_leave(c, &r->event);
	if (n == -ABI_EAGAIN && slept == -ABI_EINTR)
		return d->recv_ns ? -ABI_EINTR : -ABI_ERESTARTSYS;
	return n;
}

/* The part of a write that waits; `done` bytes went in before. */
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
		else if (n != -ABI_EAGAIN || slept)
			break;
		else
			slept = abi_wait_sleep(c, 0, 0, deadline);
	}
	abi_event_leave(c, &r->event);
	if (done)
		return done;
	if (n == -ABI_EAGAIN && slept == -ABI_EINTR)
		return d->send_ns ? -ABI_EINTR : -ABI_ERESTARTSYS;
	return n;
}

s64 abi_pipe_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 nonblock)
{
	struct abi_ring *r;
	s64 n;

	if (!d->out)
		return -ABI_EBADF;
	if (!s->left)
		return 0;
	r = abi_ring_at(c->p, d->out);
	nonblock |= abi_desc_flags(d) & ABI_O_NONBLOCK;
	n = ring_put(c->p, r, s, 1);
	if (nonblock || !s->left || (n < 0 && n != -ABI_EAGAIN))
		return n;
	return put_rest(c, d, r, s, n > 0 ? n : 0);
}

static u32 in_ready(struct abi_proc *p, const struct abi_desc *d)
{
	struct abi_ring *r = abi_ring_at(p, d->in);
	u32 ready = 0;

	abi_lock(p, &r->lock);
	if (r->len)
		ready |= ABI_POLLIN | ABI_POLLRDNORM;
	if (d->kind == ABI_DESC_PIPE && !r->writers)
		ready |= ABI_POLLHUP;
	if (d->kind == ABI_DESC_PAIR && (is_ended(r) || r->broken))
		ready |= ABI_POLLIN | ABI_POLLRDNORM | ABI_POLLRDHUP;
	abi_unlock(p, &r->lock);
	return ready;
}

static u32 out_ready(struct abi_proc *p, const struct abi_desc *d)
{
	struct abi_ring *r = abi_ring_at(p, d->out);
	u32 ready = 0;

	abi_lock(p, &r->lock);
	if (ABI_RING_SIZE - r->len >= ABI_PIPE_BUF)
		ready |= ABI_POLLOUT | ABI_POLLWRNORM;
	if (d->kind == ABI_DESC_PIPE && !r->readers)
		ready |= ABI_POLLERR;
	if (d->kind == ABI_DESC_PAIR && is_broken(r))
		ready |= ABI_POLLOUT | ABI_POLLWRNORM | ABI_POLLHUP;
	abi_unlock(p, &r->lock);
	return ready;
}

u32 abi_pipe_ready(struct abi_proc *p, const struct abi_desc *d)
{
	u32 in = d->in ? in_ready(p, d) : 0;
	u32 out = d->out ? out_ready(p, d) : 0;

	/* A pair hangs up when both directions are closed, not one. */
	if (d->kind == ABI_DESC_PAIR && !(in & ABI_POLLRDHUP))
		out &= ~(u32)ABI_POLLHUP;
	return in | out;
}

u64 abi_pipe_available(struct abi_proc *p, const struct abi_desc *d)
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

static s64 pipe_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset)
{
	(void)offset;
	return abi_pipe_read(c, d, s, 0, 0);
}

static s64 pipe_write(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset)
{
	(void)offset;
	return abi_pipe_write(c, d, s, 0);
}

static void pipe_release(struct abi_proc *p, struct abi_desc *d)
{
	if (d->in)
		abi_ring_leave(p, d->in, 0);
	if (d->out)
		abi_ring_leave(p, d->out, 1);
}

const struct abi_desc_ops abi_pipe_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.release = pipe_release,
};

const struct abi_desc_ops abi_pair_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.release = pipe_release,
};

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

s64 abi_pipe_shutdown(struct abi_proc *p, struct abi_desc *d, u32 how)
{
	if (how > 2)
		return -ABI_EINVAL;
	if (how != 1)
		shut_end(p, d->in, 0);
	if (how != 0)
		shut_end(p, d->out, 1);
	return 0;
}

/* Lets go of a ring that no description holds. */
static void ring_free(struct abi_proc *p, u32 ring)
{
	if (!ring)
		return;
	abi_ring_leave(p, ring, 0);
	abi_ring_leave(p, ring, 1);
}

s64 abi_pipe_pair(struct abi_proc *p, u32 flags, struct abi_desc *pair[2])
{
	u32 ring[2] = {ring_new(p), ring_new(p)}, i;

	pair[0] = abi_desc_new(p, ABI_DESC_PAIR, ABI_O_RDWR | flags);
	pair[1] = abi_desc_new(p, ABI_DESC_PAIR, ABI_O_RDWR | flags);
	if (ring[0] && ring[1] && pair[0] && pair[1]) {
		for (i = 0; i < 2; i++) {
			pair[i]->in = ring[i];
			pair[i]->out = ring[!i];
			pair[i]->type = ABI_S_IFSOCK;
			pair[i]->domain = ABI_AF_UNIX;
			pair[i]->sock_type = ABI_SOCK_STREAM;
			abi_strcpy(pair[i]->path, "socket:[pair]", 32);
		}
		return 0;
	}
	for (i = 0; i < 2; i++) {
		ring_free(p, ring[i]);
		if (pair[i])
			abi_desc_put(p, pair[i]);
	}
	return -ABI_ENFILE;
}

static s64 pipe_ends(struct abi_proc *p, u32 flags, struct abi_desc *end[2])
{
	u32 ring = ring_new(p), i;

	end[0] = ring ? abi_desc_new(p, ABI_DESC_PIPE, flags) : 0;
	end[1] =
		ring ? abi_desc_new(p, ABI_DESC_PIPE, flags | ABI_O_WRONLY) : 0;
	if (end[0] && end[1]) {
		end[0]->in = ring;
		end[1]->out = ring;
		for (i = 0; i < 2; i++) {
			end[i]->type = ABI_S_IFIFO;
			abi_strcpy(end[i]->path, "pipe:[abi]", 32);
		}
		return 0;
	}
	ring_free(p, ring);
	for (i = 0; i < 2; i++)
		if (end[i])
			abi_desc_put(p, end[i]);
	return -ABI_ENFILE;
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

static s64 make_pipe(struct abi_call *c, u32 flags)
{
	struct abi_desc *end[2];
	s64 error;

	if (flags & ~(ABI_O_CLOEXEC | ABI_O_NONBLOCK | ABI_O_DIRECT))
		return -ABI_EINVAL;
	if (flags & ABI_O_DIRECT) /* packets instead of a stream */
		return -ABI_EINVAL;
	error = pipe_ends(c->p, flags & ABI_O_NONBLOCK, end);
	if (error)
		return error;
	return abi_desc_install_two(c->p, end, flags & ABI_O_CLOEXEC, c->a[0]);
}

s64 abi_sys_pipe(struct abi_call *c)
{
	return make_pipe(c, 0);
}

s64 abi_sys_pipe2(struct abi_call *c)
{
	return make_pipe(c, (u32)c->a[1]);
}
