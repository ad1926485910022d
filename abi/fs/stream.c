// SPDX-License-Identifier: MIT
/* Owns what of the host has no position: terminals, devices, pipes. No state.
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
#include "abi/uapi/linux.h"

/*
 * Terminals and pipes of the host: try, wait, try again. A write goes on
 * until all is out, as Linux does for blocking descriptions.
 */
static s64 transfer_stream(struct abi_call *c, struct abi_desc *d,
			   struct abi_span *s, u32 writing)
{
	u32 edge = writing ? ABI_EDGE_OUT : ABI_EDGE_IN;
	s64 done = 0, n;

	for (;;) {
		n = abi_transfer_span(c->p, d, s, ABI_STREAM, writing);
		if (n > 0)
			done += n;
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

const struct abi_desc_ops abi_stream_ops = {
	.handle = 1,
	.polled = 1,
	.read = stream_read,
	.write = stream_write,
	.stat = abi_handle_stat,
	.control = abi_handle_control,
	.available = abi_handle_available,
	.window = stream_window,
	.release = abi_handle_release,
};
