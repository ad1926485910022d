// SPDX-License-Identifier: MIT
/*
 * Owns the socket calls that transfer data. The vectors of a datagram must be
 * sent together, and those of a stream should be (a small header sent alone
 * waits for Nagle's algorithm). So they are gathered in fds->bounce, under
 * bounce_lock, which is held during a host call that does not block, never
 * during a wait.
 */
#include "sock.h"
#include "pair.h"
#include "rights.h"
#include "unix.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/fs/regular.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"

/* Flags that abi implements itself, or that have no meaning for the host. */
#define OWN_FLAGS                                                              \
	(ABI_MSG_DONTWAIT | ABI_MSG_WAITALL | ABI_MSG_NOSIGNAL |               \
	 ABI_MSG_MORE | ABI_MSG_WAITFORONE | ABI_MSG_CMSG_CLOEXEC)

static int is_stream(const struct abi_desc *d)
{
	return d->sock_type != ABI_SOCK_DGRAM &&
	       d->sock_type != ABI_SOCK_SEQPACKET;
}

/* One attempt with the vector gathered; advances the span by the bytes sent. */
static s64 send_gathered(struct abi_call *c, struct abi_sock_transfer *t)
{
	struct abi_fds *fds = &c->p->fds;
	struct abi_span rest = t->span;
	s64 n;

	if (!is_stream(t->d) && t->span.left > sizeof(fds->bounce))
		return -LINUX_EMSGSIZE;
	abi_lock(c->p, &fds->bounce_lock);
	n = abi_span_gather(c->p, &rest, fds->bounce, sizeof(fds->bounce));
	if (n >= 0) {
		t->op.buf = fds->bounce;
		t->op.len = (u64)n;
		n = abi_sock_wait(c, t->d, &t->op, ABI_POLLOUT, 1);
	}
	abi_unlock(c->p, &fds->bounce_lock);
	while (n > 0 && t->span.left > rest.left + (t->op.len - (u64)n)) {
		void *at;
		s64 part = abi_span_chunk(c->p, &t->span, &at);
		u64 want = t->span.left - rest.left - (t->op.len - (u64)n);

		if (part <= 0)
			break;
		abi_span_skip(&t->span, (u64)part < want ? (u64)part : want);
	}
	return n;
}

static s64 send_chunk(struct abi_call *c, struct abi_sock_transfer *t)
{
	void *at = 0;
	s64 n;

	if (abi_span_many(&t->span))
		return send_gathered(c, t);
	n = abi_span_chunk(c->p, &t->span, &at);
	if (n < 0)
		return n;
	t->op.buf = at;
	t->op.len = (u64)n;
	n = abi_sock_wait(c, t->d, &t->op, ABI_POLLOUT, 1);
	if (n > 0)
		abi_span_skip(&t->span, (u64)n);
	return n;
}

/* A blocking stream sends everything; other sockets return after one successful
 * send. */
static s64 send_all(struct abi_call *c, struct abi_sock_transfer *t)
{
	u32 nonblock = t->flags & ABI_MSG_DONTWAIT ||
		       abi_desc_flags(t->d) & ABI_O_NONBLOCK;
	u64 deadline = 0;
	s64 done = 0, n;

	if (!t->span.left && is_stream(t->d))
		return 0;
	for (;;) {
		n = send_chunk(c, t);
		if (n > 0)
			done += n;
		if (n > 0)
			/* they were sent with the first bytes */
			t->op.rights = 0;
		if (n >= 0 && (!t->span.left || !is_stream(t->d)))
			break;
		if ((n < 0 && n != -LINUX_EAGAIN) || (nonblock && n < 0))
			break;
		if (n >= 0)
			continue;
		if (!deadline)
			deadline = abi_wait_deadline(c->p, t->d->send_ns);
		n = t->d->domain == ABI_AF_UNIX && t->op.addrlen
			    ? abi_unix_retry(c, deadline)
			    : abi_wait_handle(c, t->d->handle, ABI_POLLOUT,
					      deadline);
		if (n == -LINUX_ETIMEDOUT)
			n = -LINUX_EAGAIN;
		else if (n == -LINUX_EINTR && !t->d->send_ns)
			n = -ABI_ERESTARTSYS;
		if (n)
			break;
	}
	return done ? done : n;
}

static int has_oob(struct abi_call *c, const struct abi_desc *d)
{
	return abi_desc_ops(d)->handle && !abi_pair_is_shared(c->p, d);
}

static s64 refuse_oob(struct abi_call *c, s64 error)
{
	abi_log_once(c->p, &c->p->fds.said_oob,
		     "a call with MSG_OOB refused: sockets of AF_UNIX have no "
		     "data out of band here");
	return error;
}

/* An empty vector is an empty datagram; on a stream nothing is sent. */
static s64 send_transfer(struct abi_call *c, struct abi_sock_transfer *t)
{
	s64 n;

	if (t->flags & ABI_MSG_OOB && !has_oob(c, t->d))
		return refuse_oob(c, -LINUX_ENOTSUP);
	t->op.verb = ABI_SOCK_SEND;
	t->op.flags = (t->flags & ~(u32)OWN_FLAGS) | ABI_MSG_NOSIGNAL;
	n = abi_desc_ops(t->d)->send(c, t);
	if (n == -LINUX_EPIPE && is_stream(t->d) &&
	    !(t->flags & ABI_MSG_NOSIGNAL))
		abi_signal_raise(c->p, c->t, ABI_SIGPIPE);
	return n;
}

/* One attempt to receive into a vector, through the bounce buffer. */
static s64 receive_scattered(struct abi_call *c, struct abi_sock_transfer *t)
{
	struct abi_fds *fds = &c->p->fds;
	s64 n, put;

	abi_lock(c->p, &fds->bounce_lock);
	t->op.buf = fds->bounce;
	t->op.len = t->span.left < sizeof(fds->bounce) ? t->span.left
						       : sizeof(fds->bounce);
	n = abi_sock_wait(c, t->d, &t->op, ABI_POLLIN, 1);
	if (n > 0) {
		put = abi_span_scatter(c->p, &t->span, fds->bounce,
				       (u64)n < t->op.len ? (u64)n : t->op.len);
		if (put < 0)
			n = put;
	}
	abi_unlock(c->p, &fds->bounce_lock);
	return n;
}

static s64 receive_chunk(struct abi_call *c, struct abi_sock_transfer *t)
{
	void *at = 0;
	s64 n;

	if (abi_span_many(&t->span))
		return receive_scattered(c, t);
	n = abi_span_chunk(c->p, &t->span, &at);
	if (n < 0)
		return n;
	t->op.buf = at;
	t->op.len = (u64)n;
	n = abi_sock_wait(c, t->d, &t->op, ABI_POLLIN, 1);
	if (n > 0) /* with MSG_TRUNC the length may exceed the buffer */
		abi_span_skip(&t->span,
			      (u64)n < t->op.len ? (u64)n : t->op.len);
	return n;
}

/* MSG_OOB never waits (tcp_recv_urg of Linux). */
static s64 receive_all(struct abi_call *c, struct abi_sock_transfer *t)
{
	u32 nonblock = t->flags & (ABI_MSG_DONTWAIT | ABI_MSG_OOB) ||
		       abi_desc_flags(t->d) & ABI_O_NONBLOCK;
	u32 all = is_stream(t->d) && t->flags & ABI_MSG_WAITALL &&
		  !(t->flags & ABI_MSG_PEEK);
	u64 deadline = 0;
	s64 done = 0, n;

	for (;;) {
		t->op.addrlen = sizeof(t->op.addr);
		n = receive_chunk(c, t);
		if (n > 0)
			done += n;
		if (n >= 0 && (!n || !all || !t->span.left ||
			       (t->op.rights && t->op.rights->count)))
			break;
		if (n > 0)
			continue;
		if (n != -LINUX_EAGAIN || nonblock)
			break;
		if (!deadline)
			deadline = abi_wait_deadline(c->p, t->d->recv_ns);
		n = abi_wait_handle(c, t->d->handle, ABI_POLLIN, deadline);
		if (n == -LINUX_ETIMEDOUT)
			n = -LINUX_EAGAIN;
		else if (n == -LINUX_EINTR && !t->d->recv_ns)
			n = -ABI_ERESTARTSYS;
		if (n)
			break;
	}
	return done ? done : n;
}

static s64 receive_transfer(struct abi_call *c, struct abi_sock_transfer *t)
{
	if (t->flags & ABI_MSG_OOB && !has_oob(c, t->d))
		return refuse_oob(c, -LINUX_EINVAL);
	t->op.verb = ABI_SOCK_RECV;
	t->op.flags = t->flags & ~(u32)OWN_FLAGS;
	return abi_desc_ops(t->d)->receive(c, t);
}

/* read(2) and write(2) on sockets ---------------------------------------- */

static s64 sock_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset)
{
	struct abi_sock_transfer t = {.d = d, .span = *s};

	(void)offset;
	return s->left ? receive_transfer(c, &t) : 0;
}

/* file.c sends the signal of a broken stream. */
static s64 sock_write(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset)
{
	struct abi_sock_transfer t = {
		.d = d, .span = *s, .flags = ABI_MSG_NOSIGNAL};

	(void)offset;
	return send_transfer(c, &t);
}

static s64 sock_call(struct abi_call *c, struct abi_desc *d,
		     struct abi_sock_op *op)
{
	if (abi_pair_is_shared(c->p, d))
		return abi_pair_call(c->p, d, op);
	if (d->domain == ABI_AF_UNIX)
		return abi_unix_call(c, d, op);
	return c->p->host->sock(d->handle, op);
}

const struct abi_desc_ops abi_sock_ops = {
	.fs_type = ABI_FS_SOCK,
	.handle = 1,
	.polled = 1,
	.read = sock_read,
	.write = sock_write,
	.available = abi_handle_available,
	.sock = sock_call,
	.send = send_all,
	.receive = receive_all,
	.release = abi_handle_release,
};

/* sendto, recvfrom ------------------------------------------------------- */

s64 abi_sys_sendto(struct abi_call *c)
{
	struct abi_sock_transfer t = {.flags = (u32)c->a[3]};
	s64 n;

	t.d = abi_sock_get(c, c->a[0], &n);
	if (!t.d)
		return n;
	abi_span_one(&t.span, c->a[1], c->a[2], ABI_PROT_READ);
	if (c->a[4])
		n = abi_sock_addr_get(c, &t.op, c->a[4], c->a[5]);
	if (!n)
		n = send_transfer(c, &t);
	abi_desc_put(c->p, t.d);
	return n;
}

s64 abi_sys_recvfrom(struct abi_call *c)
{
	struct abi_sock_transfer t = {.flags = (u32)c->a[3]};
	s64 n, error;

	t.d = abi_sock_get(c, c->a[0], &n);
	if (!t.d)
		return n;
	abi_span_one(&t.span, c->a[1], c->a[2], ABI_PROT_WRITE);
	n = receive_transfer(c, &t);
	if (n >= 0 && c->a[4]) {
		error = abi_sock_addr_put(c, &t.op, c->a[4], c->a[5]);
		if (error)
			n = error;
	}
	abi_desc_put(c->p, t.d);
	return n;
}

/* Messages --------------------------------------------------------------- */

static s64 send_message(struct abi_call *c, struct abi_desc *d, u64 gaddr,
			u32 flags)
{
	struct abi_sock_transfer t = {.d = d, .flags = flags};
	struct abi_rights_held held;
	struct abi_msghdr h;
	s64 error;

	if (ABI_GET(c->p, &h, gaddr))
		return -LINUX_EFAULT;
	if (h.iovlen > ABI_IOV_MAX)
		return -LINUX_EMSGSIZE;
	error = abi_span_vector(c->p, &t.span, h.iov, h.iovlen, ABI_PROT_READ);
	if (!error && h.name && h.namelen)
		error = abi_sock_addr_get(c, &t.op, h.name, h.namelen);
	if (error)
		return error;
	error = abi_rights_take(c, d, &h, &held);
	if (held.rights.count)
		t.op.rights = &held.rights;
	if (!error)
		error = send_transfer(c, &t);
	abi_rights_put(c, &held);
	return error;
}

/* Writes the name, its length, and the header's other results. */
static s64 put_header(struct abi_call *c, u64 gaddr, struct abi_msghdr *h,
		      const struct abi_sock_transfer *t, s64 n)
{
	u32 len = t->op.addrlen;

	if (len > sizeof(t->op.addr))
		len = sizeof(t->op.addr);
	if (h->name && abi_user_put(c->p, h->name, t->op.addr,
				    h->namelen < len ? h->namelen : len))
		return -LINUX_EFAULT;
	if (h->name)
		h->namelen = len;
	h->flags = 0;
	if (!t->op.rights)
		h->controllen = 0;
	else if (abi_rights_give(c, t->op.rights, h, t->flags))
		return -LINUX_EFAULT;
	if (t->op.value) {
		h->flags |= ABI_MSG_CTRUNC;
		abi_log_once(c->p, &c->p->fds.said_dropped,
			     "recvmsg dropped ancillary data (MSG_CTRUNC): it "
			     "is not supported");
	}
	/* with MSG_TRUNC the host returned the true length */
	if (!is_stream(t->d) && (u64)n > t->op.len)
		h->flags |= ABI_MSG_TRUNC;
	return ABI_PUT(c->p, gaddr, h);
}

static s64 receive_message(struct abi_call *c, struct abi_desc *d, u64 gaddr,
			   u32 flags)
{
	struct abi_sock_transfer t = {.d = d, .flags = flags};
	struct abi_rights rights;
	struct abi_msghdr h;
	s64 n, error;

	if (ABI_GET(c->p, &h, gaddr))
		return -LINUX_EFAULT;
	if (h.iovlen > ABI_IOV_MAX)
		return -LINUX_EMSGSIZE;
	if (h.name && (s32)h.namelen < 0)
		return -LINUX_EINVAL;
	error = abi_span_vector(c->p, &t.span, h.iov, h.iovlen, ABI_PROT_WRITE);
	if (error)
		return error;
	if (!is_stream(d))
		t.flags |= ABI_MSG_TRUNC;
	rights.count = 0;
	rights.room = abi_rights_room(c->p, d, &h);
	if (rights.room)
		t.op.rights = &rights;
	n = receive_transfer(c, &t);
	if (n < 0)
		return n;
	error = put_header(c, gaddr, &h, &t, n);
	if (error)
		return error;
	if (!is_stream(d) && !(flags & ABI_MSG_TRUNC) && (u64)n > t.op.len)
		n = (s64)t.op.len;
	return n;
}

typedef s64 message(struct abi_call *c, struct abi_desc *d, u64 gaddr,
		    u32 flags);

static s64 run_message(struct abi_call *c, message *move)
{
	s64 n;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &n);

	if (!d)
		return n;
	n = move(c, d, c->a[1], (u32)c->a[2]);
	abi_desc_put(c->p, d);
	return n;
}

s64 abi_sys_sendmsg(struct abi_call *c)
{
	return run_message(c, send_message);
}

s64 abi_sys_recvmsg(struct abi_call *c)
{
	return run_message(c, receive_message);
}

/* Handles as many messages as possible; an error is returned only for the
 * first. */
static s64 run_messages(struct abi_call *c, struct abi_desc *d, message *move,
			u32 flags, u64 deadline)
{
	u32 i, count = (u32)c->a[2], len;
	u64 at = c->a[1];
	s64 n = 0;

	if (count > ABI_IOV_MAX)
		count = ABI_IOV_MAX;
	for (i = 0; i < count; i++, at += sizeof(struct abi_mmsghdr)) {
		n = move(c, d, at, flags);
		if (n < 0)
			break;
		len = (u32)n;
		if (abi_user_put(c->p, at + sizeof(struct abi_msghdr), &len, 4))
			return i ? (s64)i : -LINUX_EFAULT;
		if (flags & ABI_MSG_WAITFORONE)
			flags |= ABI_MSG_DONTWAIT;
		if (deadline != ABI_FOREVER &&
		    (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC) >= deadline) {
			i++;
			break;
		}
	}
	return i || n >= 0 ? (s64)i : n;
}

s64 abi_sys_sendmmsg(struct abi_call *c)
{
	s64 n;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &n);

	if (!d)
		return n;
	n = run_messages(c, d, send_message, (u32)c->a[3], ABI_FOREVER);
	abi_desc_put(c->p, d);
	return n;
}

s64 abi_sys_recvmmsg(struct abi_call *c)
{
	u64 ns, deadline = ABI_FOREVER;
	struct abi_desc *d;
	s64 n = 0;

	if (c->a[4]) {
		n = abi_time_get(c->p, c->a[4], &ns);
		if (n)
			return n;
		deadline = ns ? abi_wait_deadline(c->p, ns) : 0;
	}
	d = abi_sock_get(c, c->a[0], &n);
	if (!d)
		return n;
	n = run_messages(c, d, receive_message, (u32)c->a[3], deadline);
	abi_desc_put(c->p, d);
	return n;
}
