// SPDX-License-Identifier: GPL-2.0-only
/*
 * The proxy's mappings of its partition: the mail and the pool, never the
 * kernel region. They have page frame numbers without page references, so
 * nothing that outlives the proxy can pin memory that is returned to Linux. A
 * file that has a partition keeps it until the file is closed, so no lock is
 * needed.
 *
 * Pages of the pool are mapped on first touch: the pool may be large, and a
 * proxy needs only the pages that files are read into.
 *
 * Process context: mmap and faults, with the address space locked.
 */
#include <linux/mm.h>
#include <linux/sizes.h>

#include "compat.h"
#include "partition.h"

#define AROUND SZ_64K /* mapped at once if it is inside the mapping */

static vm_fault_t enter_pages(struct vm_area_struct *vma, u64 at, u64 offset)
{
	struct shimos_partition *p = vma->vm_private_data;
	u64 left, physical = shimos_ranges_place(&p->plan.pool, offset, &left);

	shimos_clear_mark(p, offset);
	return vmf_insert_pfn(vma, at, PHYS_PFN(physical));
}

static vm_fault_t map_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	u64 from = (u64)vma->vm_pgoff << PAGE_SHIFT, at = vmf->address;
	vm_fault_t got;

	at = max_t(u64, ALIGN_DOWN(at, AROUND), vma->vm_start);
	from += at - vma->vm_start - SHIMOS_MAP_POOL;
	do {
		got = enter_pages(vma, at, from);
		at += PAGE_SIZE;
		from += PAGE_SIZE;
	} while (got == VM_FAULT_NOPAGE && at < vma->vm_end && at % AROUND);
	return got;
}

static const struct vm_operations_struct operations = {.fault = map_fault};

/* The partition is valid: the mapping has a reference to the file, which keeps
 * it. */
static int map_pool(struct shimos_partition *p, struct vm_area_struct *vma)
{
	vma->vm_private_data = p;
	vma->vm_ops = &operations;
	shimos_compat_vm_flags(vma, VM_PFNMAP | VM_IO, 0);
	return 0;
}

int shimos_map_area(struct shimos_partition *p, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 length = vma->vm_end - vma->vm_start;
	u64 have = p->plan.mail.length, from = SHIMOS_MAP_MAIL;

	if (offset >= SHIMOS_MAP_POOL) {
		have = p->plan.bytes;
		from = SHIMOS_MAP_POOL;
	}
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (offset - from > have || length > have - (offset - from))
		return -EINVAL;
	shimos_compat_vm_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
			       VM_MAYEXEC);
	WRITE_ONCE(p->dirty, true);
	if (from == SHIMOS_MAP_POOL)
		return map_pool(p, vma);
	return remap_pfn_range(vma, vma->vm_start,
			       PHYS_PFN(p->plan.mail.start + offset), length,
			       vma->vm_page_prot);
}
