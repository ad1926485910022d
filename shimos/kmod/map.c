// SPDX-License-Identifier: GPL-2.0-only
/*
 * The proxy's view of its partition: the mail and the pool, never the kernel
 * region. Mapped by frame, without references to pages, so that nothing that
 * outlives the proxy can hold on to memory that goes back to Linux. A file with
 * a partition keeps it, so no lock is needed.
 */
#include <linux/mm.h>

#include "compat.h"
#include "partition.h"

static int map(struct vm_area_struct *vma, u64 at,
	       const struct skep_partition_range *r, u64 skip, u64 length)
{
	return remap_pfn_range(vma, vma->vm_start + at,
			       PHYS_PFN(r->start + skip), length,
			       vma->vm_page_prot);
}

static int map_pool(struct shimos_partition *p, struct vm_area_struct *vma,
		    u64 offset, u64 length)
{
	u64 at = 0, part;
	u32 i;
	int err;

	for (i = 0; i < p->plan.pools && at < length; i++) {
		if (offset >= p->plan.pool[i].length) {
			offset -= p->plan.pool[i].length;
			continue;
		}
		part = min(p->plan.pool[i].length - offset, length - at);
		err = map(vma, at, &p->plan.pool[i], offset, part);
		if (err)
			return err;
		at += part;
		offset = 0;
	}
	return 0;
}

int shimos_map_area(struct shimos_partition *p, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 length = vma->vm_end - vma->vm_start;
	u64 have = p->plan.mail.length, from = SHIMOS_MAP_MAIL;

	if (offset >= SHIMOS_MAP_POOL) {
		have = p->pool;
		from = SHIMOS_MAP_POOL;
	}
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (offset - from > have || length > have - (offset - from))
		return -EINVAL;
	shimos_compat_vm_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
			       VM_MAYEXEC);
	WRITE_ONCE(p->dirty, true);
	if (from == SHIMOS_MAP_MAIL)
		return map(vma, 0, &p->plan.mail, offset, length);
	return map_pool(p, vma, offset - from, length);
}
