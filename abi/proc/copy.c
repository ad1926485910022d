// SPDX-License-Identifier: MIT
/*
 * What a fork copies on a host that makes the child from a new process of its
 * own: copy.h, and for the host abi/include/fork.h. No state.
 */
#include "copy.h"
#include "refuse.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/fs/pipe.h"
#include "abi/include/fork.h"
#include "abi/net/pair.h"
#include "abi/poll/eventfd.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "base/errno.h"

/* A reference to description `i`, or NULL if nothing refers to it. */
static struct abi_desc *desc_at(struct abi_proc *p, u32 i)
{
	struct abi_desc *d = &p->fds.desc[i];

	abi_lock(p, &p->fds.lock);
	if (d->refs)
		d->refs++;
	else
		d = 0;
	abi_unlock(p, &p->fds.lock);
	return d;
}

s64 abi_copy_share(struct abi_proc *p)
{
	u32 i, high = __atomic_load_n(&p->fds.high, __ATOMIC_RELAXED);
	struct abi_desc *d;
	s64 error = 0;

	for (i = 0; i < high && !error; i++) {
		d = desc_at(p, i);
		if (!d)
			continue;
		error = abi_pipe_share(p, d);
		if (!error)
			error = abi_pair_share(p, d);
		if (!error)
			error = abi_eventfd_share(p, d);
		abi_desc_put(p, d);
	}
	return error;
}

/* The numbers of the child of a vfork refer to descriptions too. */
static void wait_vfork(struct abi_proc *p)
{
	u32 thread;

	while ((thread = __atomic_load_n(&p->vfork.thread, __ATOMIC_SEQ_CST)))
		p->host->wait(&p->vfork.thread, thread, ABI_FOREVER);
}

void abi_copy_begin(struct abi_proc *p)
{
	while (__atomic_exchange_n(&p->copy.busy, 1, __ATOMIC_SEQ_CST))
		p->host->wait(&p->copy.busy, 1, ABI_FOREVER);
}

void abi_copy_hold(struct abi_proc *p, u64 *held)
{
	u32 i;

	abi_assert_locked(&p->fds.lock);
	for (i = 0; i < p->fds.high; i++) {
		if (!p->fds.desc[i].refs)
			continue;
		p->fds.desc[i].refs++;
		held[i / 64] |= 1ull << i % 64;
	}
}

void abi_copy_end(struct abi_proc *p, const u64 *held)
{
	u32 i;

	for (i = 0; i < ABI_DESC_MAX; i++)
		if (held[i / 64] >> i % 64 & 1)
			abi_desc_put(p, &p->fds.desc[i]);
	__atomic_store_n(&p->copy.busy, 0, __ATOMIC_SEQ_CST);
	p->host->wake(&p->copy.busy, ABI_NONE);
}

s64 abi_copy_prepare(struct abi_proc *p)
{
	/* from now on new pipes are the host's */
	__atomic_store_n(&p->forked, 1, __ATOMIC_SEQ_CST);
	wait_vfork(p);
	return abi_copy_share(p);
}

int abi_copy_left(struct abi_proc *p)
{
	const struct abi_desc *d;
	u32 i;

	abi_assert_locked(&p->fds.lock);
	for (i = 0; i < p->fds.high; i++) {
		d = &p->fds.desc[i];
		if (!d->refs)
			continue;
		if (d->kind == ABI_DESC_PIPE || d->kind == ABI_DESC_PAIR ||
		    (d->kind == ABI_DESC_EVENT && p->host->counter))
			return 1;
	}
	return 0;
}

static s64 check_areas(struct abi_proc *p)
{
	const struct abi_area *a = p->space.area;
	const struct abi_area *end = a + p->space.areas;

	abi_assert_locked(&p->space.lock);
	for (; a < end; a++)
		if (a->bits & ABI_AREA_SHARED && !a->backing &&
		    !(a->bits & ABI_AREA_DIRECT))
			return abi_refuse(p, ABI_REFUSE_FORK_SHARED,
					  -LINUX_ENOSYS);
	return 0;
}

s64 abi_copy_check(struct abi_proc *p)
{
	if (__atomic_load_n(&p->vfork.thread, __ATOMIC_SEQ_CST))
		return 1;
	return abi_copy_left(p) ? 1 : check_areas(p);
}

/* For the host ------------------------------------------------------------- */

#define AT(field) ((u64) __builtin_offsetof(struct abi_proc, field))

/* Rings, buffers and sets of calls in progress stay with the parent. */
int abi_fork_part(const struct abi_proc *p, u32 i, u64 *offset, u64 *len)
{
	const struct {
		u64 start, end;
	} part[] = {
		{0, AT(fds.desc) + p->fds.high * sizeof(p->fds.desc[0])},
		{AT(fds.watch), AT(fds.ring)},
		{AT(fds.ring_high), AT(fds.set)},
		{AT(fds.set_high), AT(fds.bounce)},
		{AT(vfork), sizeof(*p)},
	};

	if (i >= sizeof(part) / sizeof(part[0]))
		return 0;
	*offset = part[i].start;
	*len = part[i].end - part[i].start;
	return 1;
}

s32 abi_fork_handle(const struct abi_proc *p, u32 i)
{
	const struct abi_desc *d = &p->fds.desc[i];

	if (i >= p->fds.high)
		return -2;
	return abi_desc_ops(d)->handle ? d->handle : -1;
}

s32 abi_fork_number(const struct abi_proc *p, u32 fd)
{
	u32 desc = fd < ABI_FD_MAX ? p->fds.slot[fd].desc : 0;

	return desc ? abi_fork_handle(p, desc - 1) : -1;
}

const void *abi_fork_vec(const struct abi_proc *p)
{
	return p->copy.vec;
}
