// SPDX-License-Identifier: MIT
/*
 * Owns shmat(2) and shmdt(2): segments of System V shared memory in the address
 * map. An attached segment is one area with the number of its segment, and
 * several after an mprotect or munmap of a part. Runs under space.change.
 */
#include "map.h"
#include "space.h"
#include "base/errno.h"
#include "abi/include/page.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/robust.h"
#include "abi/thread/lock.h"
#include "abi/uapi/ipc.h"
#include "abi/uapi/linux.h"
#include "build/gen/abi/numbers.h"

static s64 segment_size(struct abi_call *c, u64 id, u64 *size)
{
	struct abi_shmid seg;
	struct abi_ipc_op op = {ABI_NR_shmctl, {id, ABI_IPC_STAT, (u64)&seg}};
	s64 rc;

	rc = c->p->host->ipc(&op, c->t->index);
	if (!rc)
		*size = ABI_PAGE_UP(seg.size);
	return rc;
}

static s64 attach_locked(struct abi_proc *p, struct abi_area *a, u64 addr,
			 u64 len, u32 flags)
{
	u64 end;
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (addr) {
		if (__builtin_add_overflow(addr, len, &end) ||
		    !abi_space_range(addr, end) ||
		    (!(flags & ABI_SHM_REMAP) &&
		     !abi_space_free(&p->space, addr, end)))
			return -LINUX_EINVAL;
	}
	rc = abi_map_place(p, a, len, addr);
	if (rc < 0)
		return rc;
	a->start = (u64)rc;
	a->end = a->start + len;
	rc = abi_map_put(p, a);
	return rc ? rc : (s64)a->start;
}

s64 abi_sys_shmat(struct abi_call *c)
{
	u32 flags = (u32)c->a[2];
	struct abi_area a = {.prot = ABI_PROT_READ,
			     .bits = ABI_AREA_SHARED | ABI_AREA_COMMITTED,
			     .segment = (u32)c->a[0] + 1};
	u64 addr = c->a[1], len;
	s64 rc;

	if (!c->p->host->ipc)
		return abi_call_refuse(c);
	if ((s32)c->a[0] < 0)
		return -LINUX_EINVAL;
	if (addr & ABI_PAGE_MASK && !(flags & ABI_SHM_RND))
		return -LINUX_EINVAL;
	addr &= ~(u64)ABI_PAGE_MASK;
	if (!addr && flags & ABI_SHM_REMAP)
		return -LINUX_EINVAL;
	if (flags & ABI_SHM_EXEC) {
		c->p->host->log("shmat with SHM_EXEC refused (EACCES): shared "
				"memory cannot become executable");
		return -LINUX_EACCES;
	}
	if (flags & ABI_SHM_RDONLY)
		a.bits |= ABI_AREA_NOWRITE;
	else
		a.prot |= ABI_PROT_WRITE;
	rc = segment_size(c, c->a[0], &len);
	if (rc)
		return rc;
	abi_map_begin(c->p);
	rc = attach_locked(c->p, &a, addr, len, flags);
	abi_map_end(c->p);
	if (rc > 0 && a.prot & ABI_PROT_WRITE)
		abi_robust_shared(c->p);
	return rc;
}

/* Is it a piece of the segment that was attached at `addr`? */
static int is_piece(const struct abi_area *a, u64 addr)
{
	return a->segment && a->start - a->offset == addr;
}

s64 abi_sys_shmdt(struct abi_call *c)
{
	struct abi_space *s = &c->p->space;
	u64 addr = c->a[0];
	struct abi_area a;
	s64 rc = -LINUX_EINVAL;
	u32 i, segment = 0;

	if (!c->p->host->ipc)
		return abi_call_refuse(c);
	if (addr & ABI_PAGE_MASK)
		return rc;
	abi_map_begin(c->p);
	for (i = abi_space_index(s, addr); i < s->areas;) {
		a = s->area[i];
		if (a.start - addr > SKEP_ARENA_SIZE)
			break;
		if (!is_piece(&a, addr) || (segment && a.segment != segment)) {
			i++;
			continue;
		}
		segment = a.segment;
		rc = abi_map_clear(c->p, a.start, a.end);
		if (rc)
			break;
	}
	abi_map_end(c->p);
	return rc;
}
