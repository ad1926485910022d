// SPDX-License-Identifier: MIT
/* Owns pipe(2). */
#include "pipe.h"
#include "desc.h"
#include "fd.h"
#include "ops.h"
#include "ring.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

static u32 pipe_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u32 in = d->in ? abi_ring_state(p, d->in) : 0;
	u32 out = d->out ? abi_ring_state(p, d->out) : 0, ready = 0;

	(void)due;
	if (in & ABI_RING_DATA)
		ready |= ABI_POLLIN | ABI_POLLRDNORM;
	if (in & ABI_RING_NO_WRITER)
		ready |= ABI_POLLHUP;
	if (out & ABI_RING_ROOM)
		ready |= ABI_POLLOUT | ABI_POLLWRNORM;
	if (out & ABI_RING_NO_READER)
		ready |= ABI_POLLERR;
	return ready;
}

static s64 pipe_capacity(struct abi_proc *p, struct abi_desc *d, u64 bytes)
{
	u32 ring = d->in ? d->in : d->out;

	if (bytes > ABI_RING_SIZE) {
		abi_log_once(p, &p->fds.said_pipe,
			     "fcntl refused (EPERM): pipes of more than 64 KiB "
			     "are not available here");
		return -LINUX_EPERM;
	}
	return abi_ring_resize(p, ring, bytes);
}

const struct abi_desc_ops abi_pipe_ops = {
	.fs_type = ABI_FS_PIPE,
	.read = abi_ring_desc_read,
	.write = abi_ring_desc_write,
	.ready = pipe_ready,
	.capacity = pipe_capacity,
	.available = abi_ring_desc_available,
	.release = abi_ring_desc_release,
};

static s64 pipe_ends(struct abi_proc *p, u32 flags, struct abi_desc *end[2])
{
	u32 ring = abi_ring_new(p), i;

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
	abi_ring_free(p, ring);
	for (i = 0; i < 2; i++)
		if (end[i])
			abi_desc_put(p, end[i]);
	return -LINUX_ENFILE;
}

/* A pipe of the host, which parent and child share after a fork. */
static s64 host_ends(struct abi_proc *p, u32 flags, struct abi_desc *end[2])
{
	s32 handle[2];
	s64 error = p->host->pipe(handle, 0);
	u32 number, i;

	if (error)
		return error;
	end[0] = abi_desc_new(p, ABI_DESC_STREAM, flags);
	end[1] = abi_desc_new(p, ABI_DESC_STREAM, flags | ABI_O_WRONLY);
	number = __atomic_add_fetch(&p->fds.pipes, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++) {
		if (end[i]) {
			end[i]->pipe = number;
			if (end[!i])
				end[i]->peer = abi_desc_index(p, end[!i]) + 1;
			end[i]->handle = handle[i];
			end[i]->type = ABI_S_IFIFO;
			abi_strcpy(end[i]->path, "pipe:[host]", 32);
		} else {
			p->host->file_close(handle[i]);
		}
	}
	if (end[0] && end[1])
		return 0;
	for (i = 0; i < 2; i++)
		if (end[i])
			abi_desc_put(p, end[i]);
	return -LINUX_ENFILE;
}

static s64 make_pipe(struct abi_call *c, u32 flags)
{
	struct abi_desc *end[2];
	s64 error;

	if (flags & ~(ABI_O_CLOEXEC | ABI_O_NONBLOCK | ABI_O_DIRECT))
		return -LINUX_EINVAL;
	if (flags & ABI_O_DIRECT)
		return abi_refuse(c->p, ABI_REFUSE_PACKETS, -LINUX_EINVAL);
	error = c->p->host->pipe ? host_ends(c->p, flags & ABI_O_NONBLOCK, end)
				 : pipe_ends(c->p, flags & ABI_O_NONBLOCK, end);
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
