// SPDX-License-Identifier: GPL-2.0-only
/*
 * The area: rings in one piece of kernel memory, the slab in pages that come
 * when they are used first, by the core or by the program, and stay until the
 * engine is freed. So a program may do with its mapping what it likes.
 *
 * A child of fork() has no mapping. When the last one is gone, the program is,
 * or does not want to know of the endpoint: the engine ends.
 */
#include <linux/highmem.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include "inside.h"

#define HOLD_GFP (__GFP_ZERO | __GFP_NOWARN | __GFP_ACCOUNT)

int o2g_area_make(struct o2g_engine *engine, const struct o2g_device_open *o)
{
	struct o2g_pages *pages = &engine->pages;
	u64 head;
	int rc;

	xa_init_flags(&pages->slab, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
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

	xa_for_each(&pages->slab, index, page) put_page(page);
	xa_destroy(&pages->slab);
	atomic64_sub(present, &o2g_totals.pages);
	o2g_memory_uncharge(engine, present << PAGE_SHIFT);
	if (!pages->rings)
		return;
	vfree(pages->rings);
	atomic64_sub(pages->rings_size, &o2g_totals.memory);
	o2g_memory_uncharge(engine, pages->rings_size);
}

/* ---- pages of the slab ---- */

static struct page *page_new(struct o2g_engine *engine, gfp_t gfp)
{
	struct mem_cgroup *before;
	struct page *page;

	if (o2g_memory_charge(engine, PAGE_SIZE))
		return NULL;
	before = set_active_memcg(engine->memory.group);
	page = alloc_page(gfp | HOLD_GFP);
	set_active_memcg(before);
	if (!page)
		o2g_memory_uncharge(engine, PAGE_SIZE);
	return page;
}

/* Several may want the same page at once: the first one's stays. */
static struct page *page_make(struct o2g_engine *engine, unsigned long index,
			      gfp_t gfp)
{
	struct o2g_pages *pages = &engine->pages;
	struct page *page = page_new(engine, gfp), *was;

	if (!page)
		return NULL;
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

	if (WARN_ON_ONCE(offset >= pages->size))
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

/* ---- the program's mapping ---- */

static vm_fault_t area_fault(struct vm_fault *vmf)
{
	struct o2g_engine *engine = vmf->vma->vm_private_data;
	const u64 offset = (u64)vmf->pgoff << PAGE_SHIFT;
	struct page *page;

	if (offset >= engine->pages.size)
		return VM_FAULT_SIGBUS;
	if (offset < engine->pages.rings_size)
		page = vmalloc_to_page(engine->pages.rings + offset);
	else
		page = slab_page(engine, offset, GFP_KERNEL);
	if (!page)
		return VM_FAULT_SIGBUS;
	get_page(page);
	vmf->page = page;
	return 0;
}

static void area_open(struct vm_area_struct *vma)
{
	struct o2g_engine *engine = vma->vm_private_data;

	atomic_inc(&engine->pages.maps);
}

/* The mapping's file outlives this, and waits for end_work when it goes. */
static void area_close(struct vm_area_struct *vma)
{
	struct o2g_engine *engine = vma->vm_private_data;

	if (atomic_dec_and_test(&engine->pages.maps))
		queue_work(system_unbound_wq, &engine->end_work);
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
	o2g_compat_vma(vma, VM_DONTCOPY | VM_DONTEXPAND, VM_MAYEXEC);
	vma->vm_private_data = engine;
	vma->vm_ops = &area_ops;
	return 0;
}
