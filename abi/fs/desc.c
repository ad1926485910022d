// SPDX-License-Identifier: MIT
/*
 * Owns the reference counts of descriptions and their numbers, both under
 * fds->lock. abi_desc_put releases what a description refers to, outside of
 * that lock.
 */
#include "desc.h"
#include "ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

u32 abi_desc_index(const struct abi_proc *p, const struct abi_desc *d)
{
	return (u32)(d - p->fds.desc);
}

struct abi_desc *abi_desc_get(struct abi_proc *p, u64 fd)
{
	struct abi_desc *d = 0;

	/* Linux takes an int, so the upper half of the register is ignored. */
	fd = (u32)fd;
	if (fd >= ABI_FD_MAX)
		return 0;
	abi_lock(p, &p->fds.lock);
	if (abi_slots(p)[fd].desc) {
		d = &p->fds.desc[abi_slots(p)[fd].desc - 1];
		d->refs++;
	}
	abi_unlock(p, &p->fds.lock);
	return d;
}

void abi_desc_hold(struct abi_proc *p, struct abi_desc *d)
{
	abi_lock(p, &p->fds.lock);
	d->refs++;
	abi_unlock(p, &p->fds.lock);
}

/* Nothing refers to the description any more, and it is not free yet, so no
 * lock is needed. */
static void release_desc(struct abi_proc *p, struct abi_desc *d)
{
	const struct abi_desc_ops *ops = abi_desc_ops(d);

	if (ops->release && !ops->release(p, d))
		return;
	abi_lock(p, &p->fds.lock);
	d->kind = ABI_DESC_FREE;
	abi_unlock(p, &p->fds.lock);
}

void abi_desc_put(struct abi_proc *p, struct abi_desc *d)
{
	u32 last;

	abi_lock(p, &p->fds.lock);
	last = !--d->refs;
	abi_unlock(p, &p->fds.lock);
	if (last)
		release_desc(p, d);
}

static void reset_desc(struct abi_desc *d, u32 kind, u32 flags)
{
	/* path is long and mostly unused: only its start is cleared. */
	abi_memset(d, 0, (u64)((u8 *)d->path - (u8 *)d));
	d->path[0] = 0;
	d->refs = 1;
	d->kind = kind;
	d->flags = flags;
	d->handle = -1;
}

struct abi_desc *abi_desc_new(struct abi_proc *p, u32 kind, u32 flags)
{
	struct abi_fds *fds = &p->fds;
	struct abi_desc *d = 0;
	u32 i;

	abi_lock(p, &fds->lock);
	for (i = 0; i < ABI_DESC_MAX && !d; i++) {
		if (!abi_desc_is_free(&fds->desc[i]))
			continue;
		d = &fds->desc[i];
		reset_desc(d, kind, flags);
		if (i >= fds->high)
			fds->high = i + 1;
	}
	abi_unlock(p, &fds->lock);
	return d;
}

/* Numbers from the limit RLIMIT_NOFILE on are never assigned. */
u32 abi_desc_limit(struct abi_proc *p)
{
	u64 cur = abi_limits(p)[7].cur;

	return cur && cur < ABI_FD_MAX ? (u32)cur : ABI_FD_MAX;
}

static s64 lowest_free(struct abi_proc *p, u32 least)
{
	u32 fd, limit = abi_desc_limit(p);

	for (fd = least; fd < limit; fd++)
		if (!abi_slots(p)[fd].desc)
			return fd;
	return -LINUX_EMFILE;
}

void abi_desc_number(struct abi_proc *p, u32 fd, struct abi_desc *d,
		     u32 cloexec)
{
	abi_assert_locked(&p->fds.lock);
	abi_slots(p)[fd].desc = (u16)(abi_desc_index(p, d) + 1);
	abi_slots(p)[fd].cloexec = !!cloexec;
	d->numbers++;
}

s64 abi_desc_install(struct abi_proc *p, struct abi_desc *d, u32 least,
		     u32 cloexec)
{
	s64 fd;

	abi_lock(p, &p->fds.lock);
	fd = lowest_free(p, least);
	if (fd >= 0)
		abi_desc_number(p, (u32)fd, d, cloexec);
	abi_unlock(p, &p->fds.lock);
	if (fd < 0)
		abi_desc_put(p, d);
	return fd;
}

u32 abi_desc_kind(u32 type)
{
	switch (type & ABI_S_IFMT) {
	case ABI_S_IFREG:
		return ABI_DESC_FILE;
	case ABI_S_IFDIR:
		return ABI_DESC_DIR;
	case ABI_S_IFBLK:
		return ABI_DESC_BLOCK;
	default:
		return ABI_DESC_STREAM;
	}
}
