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
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
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

/* An end of pipe `number` of the host. */
static void set_end(struct abi_desc *end, u32 number, s32 handle)
{
	end->pipe = number;
	end->handle = handle;
	end->type = ABI_S_IFIFO;
	abi_strcpy(end->path, "pipe:[host]", 32);
}

/* The ends become those of the host's pipe; their locks are not needed, since
 * calls that use the ring start again. */
static void change_ends(struct abi_proc *p, u32 ring, const s32 handle[2])
{
	u32 number = __atomic_add_fetch(&p->fds.pipes, 1, __ATOMIC_RELAXED);
	struct abi_desc *d, *end[2] = {0, 0};
	u32 i;

	abi_lock(p, &p->fds.lock);
	for (i = 0; i < p->fds.high; i++) {
		d = &p->fds.desc[i];
		if (d->kind != ABI_DESC_PIPE || !d->refs ||
		    (d->in != ring && d->out != ring))
			continue;
		end[d->in != ring] = d;
		set_end(d, number, handle[d->in != ring]);
		d->in = d->out = 0;
		__atomic_store_n(&d->kind, ABI_DESC_STREAM, __ATOMIC_SEQ_CST);
	}
	for (i = 0; i < 2; i++)
		if (end[i] && end[!i])
			end[i]->peer = abi_desc_index(p, end[!i]) + 1;
	abi_unlock(p, &p->fds.lock);
	for (i = 0; i < 2; i++)
		if (!end[i])
			p->host->file_close(handle[i]);
}

s64 abi_pipe_share(struct abi_proc *p, struct abi_desc *d)
{
	u32 ring = d->in ? d->in : d->out;
	s32 handle[2];
	s64 error;

	if (d->kind != ABI_DESC_PIPE)
		return 0;
	error = p->host->pipe(handle, 0);
	if (error)
		return error;
	error = abi_ring_move(p, ring, handle[1]);
	if (error) {
		p->host->file_close(handle[0]);
		p->host->file_close(handle[1]);
		return error;
	}
	change_ends(p, ring, handle);
	abi_event_signal(p, &abi_ring_at(p, ring)->event,
			 ABI_EDGE_IN | ABI_EDGE_OUT);
	return 0;
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
			set_end(end[i], number, handle[i]);
			if (end[!i])
				end[i]->peer = abi_desc_index(p, end[!i]) + 1;
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

/* A program that has started another one will pass on the next pipe too. */
static int shares_pipes(struct abi_proc *p)
{
	return p->host->pipe && (!p->info.spawns ||
				 __atomic_load_n(&p->forked, __ATOMIC_RELAXED));
}

static s64 make_pipe(struct abi_call *c, u32 flags)
{
	struct abi_desc *end[2];
	s64 error;

	if (flags & ~(ABI_O_CLOEXEC | ABI_O_NONBLOCK | ABI_O_DIRECT))
		return -LINUX_EINVAL;
	if (flags & ABI_O_DIRECT)
		return abi_refuse(c->p, ABI_REFUSE_PACKETS, -LINUX_EINVAL);
	error = shares_pipes(c->p)
			? host_ends(c->p, flags & ABI_O_NONBLOCK, end)
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
