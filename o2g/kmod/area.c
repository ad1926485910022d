// SPDX-License-Identifier: GPL-2.0-only
/*
 * The area that an engine shares with its program. The rings are in contiguous
 * kernel memory. The slab's pages are allocated on first use, by the core or by
 * the program, and freed with the engine, or earlier if memory is short and
 * they are unused. So addresses in the program's mapping need no checks.
 *
 * A child of fork() has no mapping. When the last mapping is gone, the program
 * has ended or has dropped the endpoint, and the engine ends.
 *
 * Context: o2g_area_at() any, softirqs too (then with `atomic`); all else is
 * process context: calls, page faults with the memory map's lock, workers.
 */
#include <linux/highmem.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include "internal.h"

#define DROP_MAX 32   /* pages freed at once */
#define SHRINK_MAX 64 /* free blocks examined */
#define PAGE_GFP (__GFP_ZERO | __GFP_NOWARN | __GFP_ACCOUNT)

int o2g_area_make(struct o2g_engine *engine, const struct o2g_device_open *o)
{
	struct o2g_pages *pages = &engine->pages;
	u64 head;
	int rc;

	rc = o2g_area_size(o->sq_entries, o->cq_entries, 0, o->unexpected,
			   &pages->size);
	if (!rc)
		rc = o2g_area_size(o->sq_entries, o->cq_entries, 0, 0, &head);
	if (!rc)
		rc = o2g_memory_charge(engine, head);
	if (rc)
		return rc;
	pages->rings_size = head;
	pages->rings = __vmalloc(head, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!pages->rings) {
		o2g_memory_uncharge(engine, head);
		return -ENOMEM;
	}
	atomic64_add(head, &o2g_totals.memory);
	return o2g_area_format(pages->rings, o->sq_entries, o->cq_entries, 0,
			       o->unexpected);
}

void o2g_area_free(struct o2g_engine *engine)
{
	struct o2g_pages *pages = &engine->pages;
	const u64 present = atomic64_read(&pages->present);
	unsigned long index;
	struct page *page;

	xa_for_each(&pages->slab, index, page)
		put_page(page);
	xa_destroy(&pages->slab);
	atomic64_sub(present, &o2g_totals.pages);
	if (!pages->rings)
		return; /* never allocated */
	o2g_memory_uncharge(engine, present << PAGE_SHIFT);
	vfree(pages->rings);
	atomic64_sub(pages->rings_size, &o2g_totals.memory);
	o2g_memory_uncharge(engine, pages->rings_size);
}

/* ---- pages of the slab ---- */

/* If several contexts allocate the same page at once, the first page is
 * kept. */
static struct page *page_new(struct o2g_engine *engine, unsigned long index,
			     gfp_t gfp)
{
	struct o2g_pages *pages = &engine->pages;
	struct page *page = alloc_page(gfp | PAGE_GFP), *was;

	if (!page) {
		o2g_memory_uncharge(engine, PAGE_SIZE);
		return NULL;
	}
	was = xa_cmpxchg_bh(&pages->slab, index, NULL, page, gfp);
	if (!was) {
		atomic64_inc(&pages->present);
		atomic64_inc(&o2g_totals.pages);
		return page;
	}
	put_page(page);
	o2g_memory_uncharge(engine, PAGE_SIZE);
	return xa_is_err(was) ? NULL : was;
}

static struct page *page_make(struct o2g_engine *engine, unsigned long index,
			      gfp_t gfp)
{
	struct mem_cgroup *before;
	struct page *page;

	if (o2g_memory_charge_page(engine)) {
		WRITE_ONCE(engine->pages.lacking, true);
		return NULL;
	}
	before = set_active_memcg(engine->memory.group);
	page = page_new(engine, index, gfp);
	set_active_memcg(before);
	if (!page && gfpflags_allow_blocking(gfp))
		WRITE_ONCE(engine->pages.lacking, true);
	return page;
}

static struct page *slab_page(struct o2g_engine *engine, u64 offset, gfp_t gfp)
{
	const unsigned long index =
		(offset - engine->pages.rings_size) >> PAGE_SHIFT;
	struct page *page = xa_load(&engine->pages.slab, index);

	return page ? page : page_make(engine, index, gfp);
}

void *o2g_area_at(struct o2g_engine *engine, u64 offset, u64 *length,
		  bool atomic)
{
	struct o2g_pages *pages = &engine->pages;
	struct page *page;

	skep_assert(offset < pages->size);
	if (offset >= pages->size)
		return NULL;
	if (offset < pages->rings_size) {
		*length = pages->rings_size - offset;
		return pages->rings + offset;
	}
	page = slab_page(engine, offset, atomic ? GFP_NOWAIT : GFP_KERNEL);
	if (!page)
		return NULL;
	*length = PAGE_SIZE - offset_in_page(offset);
	return page_address(page) + offset_in_page(offset);
}

/* ---- freeing pages ---- */

/* Removes some of the pages first to last, which are unused, and advances
 * `first` past them. A fault that found a page keeps it locked until it is
 * mapped. */
static u32 take_pages(struct o2g_pages *pages, unsigned long *first,
		      unsigned long last, struct page *gone[DROP_MAX])
{
	unsigned long index;
	struct page *page;
	u32 n = 0;

	xa_for_each_range(&pages->slab, index, page, *first, last) {
		if (n == DROP_MAX)
			break;
		lock_page(page);
		xa_erase_bh(&pages->slab, index);
		unlock_page(page);
		gone[n++] = page;
		*first = index + 1;
	}
	return n;
}

static void drop_pages(struct o2g_engine *engine, u64 offset, u64 length)
{
	struct o2g_pages *pages = &engine->pages;
	unsigned long first = (offset - pages->rings_size) >> PAGE_SHIFT;
	const unsigned long last = first + (length >> PAGE_SHIFT) - 1;
	unsigned long from = first;
	struct page *gone[DROP_MAX];
	u32 n;

	while ((n = take_pages(pages, &first, last, gone))) {
		unmap_mapping_range(pages->mapping,
				    pages->rings_size +
					    ((loff_t)from << PAGE_SHIFT),
				    (loff_t)(first - from) << PAGE_SHIFT, 1);
		from = first;
		for (u32 i = 0; i < n; i++)
			put_page(gone[i]);
		atomic64_sub(n, &pages->present);
		atomic64_sub(n, &o2g_totals.pages);
		o2g_memory_uncharge(engine, (u64)n << PAGE_SHIFT);
		cond_resched();
	}
}

void o2g_area_shrink(struct o2g_engine *engine)
{
	u64 offset[SHRINK_MAX], length = 0;
	u32 n = 0;

	might_sleep();
	if (!xchg(&engine->pages.lacking, false) || !engine->pages.mapping)
		return;
	for (; n < SHRINK_MAX; n++) {
		offset[n] = 0;
		o2g_engine_lock(engine);
		if (!engine->closed)
			offset[n] = o2g_core_borrow(engine->core, PAGE_SIZE,
						    &length);
		o2g_engine_unlock(engine, NULL);
		if (!offset[n])
			break;
		drop_pages(engine, offset[n], length);
	}
	o2g_engine_lock(engine);
	while (n-- > 0)
		if (engine->core)
			o2g_core_return(engine->core, offset[n]);
	o2g_engine_unlock(engine, NULL);
}

/* ---- the program's mapping ---- */

/* Returns a page of the slab, locked and with a reference. */
static struct page *slab_fault(struct o2g_engine *engine, u64 offset)
{
	struct xarray *slab = &engine->pages.slab;
	const unsigned long index =
		(offset - engine->pages.rings_size) >> PAGE_SHIFT;
	struct page *page;

	for (;;) {
		xa_lock_bh(slab);
		page = xa_load(slab, index);
		if (page)
			get_page(page);
		xa_unlock_bh(slab);
		if (page) {
			lock_page(page);
			if (xa_load(slab, index) == page)
				return page;
			unlock_page(page); /* was freed in the meantime */
			put_page(page);
		} else if (!page_make(engine, index, GFP_KERNEL)) {
			return NULL;
		}
	}
}

static vm_fault_t area_fault(struct vm_fault *vmf)
{
	struct o2g_engine *engine = vmf->vma->vm_private_data;
	const u64 offset = (u64)vmf->pgoff << PAGE_SHIFT;

	if (offset >= engine->pages.size)
		return VM_FAULT_SIGBUS;
	if (offset < engine->pages.rings_size) {
		vmf->page = vmalloc_to_page(engine->pages.rings + offset);
		get_page(vmf->page);
		return 0;
	}
	vmf->page = slab_fault(engine, offset);
	return vmf->page ? VM_FAULT_LOCKED : VM_FAULT_SIGBUS;
}

/* A child that inherited the mapping by MADV_DOFORK is another process, which
 * may not use it. */
static bool vma_counts(const struct vm_area_struct *vma)
{
	const struct o2g_engine *engine = vma->vm_private_data;

	return vma->vm_mm == engine->mm;
}

static void area_open(struct vm_area_struct *vma)
{
	struct o2g_engine *engine = vma->vm_private_data;

	if (vma_counts(vma))
		atomic_inc(&engine->pages.maps);
}

/* A mapping refers to the file, whose release waits for end_work. */
static void area_close(struct vm_area_struct *vma)
{
	struct o2g_engine *engine = vma->vm_private_data;

	if (vma_counts(vma) && atomic_dec_and_test(&engine->pages.maps))
		queue_work(engine->workers, &engine->end_work);
}

static const struct vm_operations_struct area_ops = {
	.open = area_open,
	.close = area_close,
	.fault = area_fault,
};

int o2g_area_map(struct o2g_engine *engine, struct vm_area_struct *vma)
{
	struct o2g_pages *pages = &engine->pages;

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != pages->size ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (xchg(&pages->mapped, true))
		return -EBUSY;
	atomic_set(&pages->maps, 1);
	o2g_compat_vma(vma, VM_DONTCOPY | VM_DONTEXPAND, VM_EXEC | VM_MAYEXEC);
	pages->mapping = vma->vm_file->f_mapping;
	vma->vm_private_data = engine;
	vma->vm_ops = &area_ops;
	return 0;
}
