// SPDX-License-Identifier: MIT
/* Owns host files without a position: terminals, devices, pipes. No state.
 */
#include "stream.h"
#include "desc.h"
#include "ops.h"
#include "regular.h"
#include "transfer.h"
#include "base/errno.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/*
 * write(2) of at most PIPE_BUF bytes to a pipe is atomic, also with a vector.
 * After -EAGAIN the span is unchanged.
 */
static s64 write_gathered(struct abi_proc *p, struct abi_desc *d,
			  struct abi_span *s)
{
	struct abi_fds *fds = &p->fds;
	struct abi_span before = *s;
	s64 n;

	abi_lock(p, &fds->bounce_lock);
	n = abi_span_gather(p, s, fds->bounce, ABI_PIPE_BUF);
	if (n > 0)
		n = abi_transfer_part(p, d, fds->bounce, (u64)n, ABI_STREAM, 1);
	abi_unlock(p, &fds->bounce_lock);
	if (n < 0)
		*s = before;
	return n;
}

void abi_stream_tell_peer(struct abi_proc *p, struct abi_desc *d, u32 edge)
{
	struct abi_desc *peer;

	if (!d->peer)
		return;
	peer = &p->fds.desc[d->peer - 1];
	if (abi_desc_ops(peer) == &abi_stream_ops && peer->pipe == d->pipe)
		abi_event_rearm(p, &peer->event, edge);
}

static s64 transfer_part(struct abi_proc *p, struct abi_desc *d,
			 struct abi_span *s, u32 writing)
{
	if (writing && d->type == ABI_S_IFIFO && abi_span_many(s) &&
	    s->left <= ABI_PIPE_BUF)
		return write_gathered(p, d, s);
	return abi_transfer_span(p, d, s, ABI_STREAM, writing);
}

/*
 * Terminals and pipes of the host: try, wait, try again. A blocking write
 * continues until everything is written, as on Linux.
 */
static s64 transfer_stream(struct abi_call *c, struct abi_desc *d,
			   struct abi_span *s, u32 writing)
{
	u32 edge = writing ? ABI_EDGE_OUT : ABI_EDGE_IN;
	s64 done = 0, n;

	for (;;) {
		n = transfer_part(c->p, d, s, writing);
		if (n > 0) {
			done += n;
			abi_stream_tell_peer(
				c->p, d, writing ? ABI_EDGE_IN : ABI_EDGE_OUT);
		}
		if (!writing || n == -LINUX_EAGAIN || s->left)
			abi_event_rearm(c->p, &d->event, edge);
		if (!s->left || (n > 0 && !writing) ||
		    (n < 0 && n != -LINUX_EAGAIN) || (!n && !writing) ||
		    abi_desc_flags(d) & ABI_O_NONBLOCK)
			break;
		n = abi_wait_handle(c, d->handle,
				    writing ? ABI_POLLOUT : ABI_POLLIN,
				    ABI_FOREVER);
		if (n) {
			n = n == -LINUX_EINTR ? -ABI_ERESTARTSYS : n;
			break;
		}
	}
	return done ? done : n;
}

static s64 stream_read(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 offset)
{
	(void)offset;
	return transfer_stream(c, d, s, 0);
}

static s64 stream_write(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	(void)offset;
	return transfer_stream(c, d, s, 1);
}

static s64 stream_window(struct abi_call *c, struct abi_desc *d)
{
	struct abi_file_op op = {.verb = ABI_FILE_WINSIZE};

	if (d->type != ABI_S_IFCHR)
		return -LINUX_ENOTTY;
	return c->p->host->file(d->handle, &op);
}

static s64 stream_capacity(struct abi_proc *p, struct abi_desc *d, u64 bytes)
{
	struct abi_file_op op = {.verb = ABI_FILE_PIPE_SIZE, .len = bytes};

	return d->type == ABI_S_IFIFO ? p->host->file(d->handle, &op)
				      : -LINUX_EBADF;
}

const struct abi_desc_ops abi_stream_ops = {
	.handle = 1,
	.polled = 1,
	.read = stream_read,
	.write = stream_write,
	.stat = abi_handle_stat,
	.control = abi_handle_control,
	.available = abi_handle_available,
	.window = stream_window,
	.capacity = stream_capacity,
	.release = abi_handle_release,
};
