// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts cores, in an image or in parking, and stops them.
 *
 * INIT makes a core wait, whatever it was doing, without help from the image.
 * No register shows that it took effect, so the core is then started in parking
 * and must answer from there; only then is its memory touched. A second INIT
 * makes it wait again, so that an idle core executes nothing.
 *
 * SIPI starts a core below 1 MiB, and Linux keeps all of that memory for
 * itself. This borrows a page that is RAM, reserved, zero and not executable,
 * and so is not Linux's own trampoline. page_lock guards it from its first
 * write until it is zero again.
 *
 * A run of such pages is lent to an image that asks for memory below 1 MiB,
 * from its start until all its cores have answered from parking.
 *
 * Process context, and sleeps for seconds; but shimos_boot_init also runs in a
 * panic.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/e820/api.h>
#include <asm/pgtable.h>

#include "partition.h"
#include "trampoline.h"
#include <shimos/core/apic.h>
#include <shimos/core/image.h>
#include <shimos/core/tables.h>

/* The pages of a partition's `boot`: code, page tables, stacks of 64 bytes. */
#define BOOT_ORDER 4
#define TABLES 1
#define TABLE_PAGES 11
#define STACKS 12
#define STACK 64
#define IDT 2048 /* offset in the page with the code */
#define VECTORS 19
#define IVT 2048 /* offset in the borrowed page */

#define INIT_US 10000
#define ANSWER_MS 60000 /* an emulator may not run the core for so long */
#define RUN_PAGES 16
#define RUN_LEAST 0x10 /* kernels keep away from the first 64 KiB */
#define AGAIN_MS 200   /* until SIPI is sent again: the first may be lost */

static DEFINE_MUTEX(page_lock);
static unsigned long low_pfn;		  /* written only at module init */
static struct shimos_partition *low_user; /* page_lock; has the run of pages */

static bool page_borrowable(unsigned long pfn)
{
	u64 at = PFN_PHYS(pfn);
	unsigned int level;
	pte_t *pte;

	if (!e820__mapped_any(at, at + PAGE_SIZE, E820_TYPE_RAM) ||
	    !pfn_valid(pfn) || !PageReserved(pfn_to_page(pfn)))
		return false;
	pte = lookup_address((unsigned long)phys_to_virt(at), &level);
	return pte && pte_present(*pte) && pte_write(*pte) &&
	       pte_flags(*pte) & _PAGE_NX &&
	       !memchr_inv(phys_to_virt(at), 0, PAGE_SIZE);
}

int shimos_boot_find(void)
{
	unsigned long pfn;

	for (pfn = 0x9f; pfn > 0; pfn--) {
		if (!page_borrowable(pfn))
			continue;
		low_pfn = pfn;
		return 0;
	}
	pr_err("shimos: no page below 1 MiB is free to start cores\n");
	return -ENODEV;
}

/* The first page of the highest run of borrowable pages, or 0. */
static unsigned long find_run(void)
{
	unsigned long pfn, found = 0;

	lockdep_assert_held(&page_lock);
	for (pfn = 0x9f; pfn >= RUN_LEAST; pfn--) {
		found = pfn != low_pfn && page_borrowable(pfn) ? found + 1 : 0;
		if (found == RUN_PAGES)
			return pfn;
	}
	return 0;
}

int shimos_boot_lend_low(struct shimos_partition *p, struct shimos_text *why)
{
	unsigned long pfn;
	int err = 0;

	mutex_lock(&page_lock);
	pfn = low_user ? 0 : find_run();
	if (low_user) {
		shimos_text_add(why, "another partition runs a Linux kernel: "
				     "only one at a time can");
		err = -EBUSY;
	} else if (!pfn) {
		shimos_text_add(why, "a Linux kernel needs 64 KiB of memory "
				     "below 640 KiB, and this Linux has none "
				     "that it does not use");
		err = -ENOMEM;
	} else {
		low_user = p;
		p->low_start = PFN_PHYS(pfn);
		p->low_size = RUN_PAGES * PAGE_SIZE;
	}
	mutex_unlock(&page_lock);
	return err;
}

void shimos_boot_return_low(struct shimos_partition *p)
{
	mutex_lock(&page_lock);
	if (low_user == p) {
		memset(phys_to_virt(p->low_start), 0, p->low_size);
		low_user = NULL;
		p->low_start = p->low_size = 0;
	}
	mutex_unlock(&page_lock);
}

static struct shimos_stage_data *boot_stage(struct shimos_partition *p)
{
	return page_address(p->boot) + (shimos_stage_data - shimos_stage_begin);
}

static void set_gate(u64 *idt, u32 vector, u64 at)
{
	idt[vector * 2] = (at & 0xffff) | SHIMOS_CODE64 << 16 |
			  0x8e00ull << 32 | (at >> 16 & 0xffff) << 48;
	idt[vector * 2 + 1] = at >> 32;
}

static void make_stage(struct shimos_partition *p)
{
	u64 start = page_to_phys(p->boot);
	void *page = page_address(p->boot);
	struct shimos_stage_data *d = boot_stage(p);

	memcpy(page, shimos_stage_begin, shimos_stage_end - shimos_stage_begin);
	d->gdt_limit = sizeof(d->gdt) - 1;
	d->gdt_base = start + ((void *)d->gdt - page);
	d->idt_limit = VECTORS * 16 - 1;
	d->idt_base = start + IDT;
	set_gate(page + IDT, 2,
		 start + (shimos_stage_nmi - shimos_stage_begin));
	set_gate(page + IDT, 18,
		 start + (shimos_stage_halt - shimos_stage_begin));
}

static int make_tables(struct shimos_partition *p, struct shimos_tables *t)
{
	u64 start = page_to_phys(p->boot), at;
	int i, err;

	shimos_tables_begin(t, page_address(p->boot) + TABLES * PAGE_SIZE,
			    start + TABLES * PAGE_SIZE, TABLE_PAGES);
	err = shimos_tables_map(t, PFN_PHYS(low_pfn), PFN_PHYS(low_pfn), 0);
	for (i = 0; i < 1 << BOOT_ORDER && !err; i++)
		err = shimos_tables_map(t, start + i * PAGE_SIZE,
					start + i * PAGE_SIZE, 0);
	for (at = 0; at < p->plan.kernel.length && !err;
	     at += SKEP_PARTITION_ALIGN)
		err = shimos_tables_map(t, SKEP_PARTITION_BASE + at,
					p->plan.kernel.start + at, 1);
	return err;
}

int shimos_boot_prepare(struct shimos_partition *p, struct shimos_text *why)
{
	struct shimos_tables tables;
	int err;

	BUILD_BUG_ON(SKEP_PARTITION_CORES * STACK >
		     ((1 << BOOT_ORDER) - STACKS) * PAGE_SIZE);
	p->boot = alloc_pages(GFP_KERNEL | GFP_DMA32 | __GFP_ZERO, BOOT_ORDER);
	if (!p->boot) {
		shimos_text_add(why, "no 64 KiB are free below 4 GiB");
		return -ENOMEM;
	}
	make_stage(p);
	err = make_tables(p, &tables);
	if (err)
		shimos_text_add(why, "the image's memory needs too many page "
				     "tables");
	return err;
}

void shimos_boot_discard(struct shimos_partition *p)
{
	if (p->boot)
		__free_pages(p->boot, BOOT_ORDER);
	p->boot = NULL;
}

static void borrow_low_page(struct shimos_partition *p)
{
	void *page = phys_to_virt(PFN_PHYS(low_pfn));
	struct shimos_low_data *d = page + (shimos_low_data - shimos_low_begin);
	u64 start = page_to_phys(p->boot);
	u16 *ivt = page + IVT;

	lockdep_assert_held(&page_lock);
	memcpy(page, shimos_low_begin, shimos_low_end - shimos_low_begin);
	d->idt_limit = 3 * 4 - 1;
	d->idt_base = PFN_PHYS(low_pfn) + IVT;
	ivt[4] = shimos_low_return - shimos_low_begin; /* vector 2: NMI */
	ivt[5] = low_pfn << 8;
	d->gdt_limit = boot_stage(p)->gdt_limit;
	d->gdt_base = boot_stage(p)->gdt_base;
	d->cr3 = start + TABLES * PAGE_SIZE;
	d->jump_offset = start;
	d->jump_selector = SHIMOS_CODE64;
}

static void give_back(void)
{
	lockdep_assert_held(&page_lock);
	memset(phys_to_virt(PFN_PHYS(low_pfn)), 0, PAGE_SIZE);
}

static bool core_answered(struct shimos_partition *p, u32 core, u32 ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);

	do {
		if (smp_load_acquire(&boot_stage(p)->answer) == core + 1)
			return true;
		usleep_range(20, 100);
	} while (time_before(jiffies, end));
	return false;
}

static bool start_one(struct shimos_partition *p, u32 core, u64 entry)
{
	struct shimos_stage_data *d = boot_stage(p);
	u32 ms;

	lockdep_assert_held(&page_lock);
	d->entry = entry;
	d->core = core;
	d->stack =
		page_to_phys(p->boot) + STACKS * PAGE_SIZE + (core + 1) * STACK;
	WRITE_ONCE(d->answer, 0);
	smp_mb();
	for (ms = 0; ms < ANSWER_MS; ms += AGAIN_MS) {
		shimos_cpu_signal(p->place[core].apic_id, SHIMOS_SIPI, low_pfn);
		if (core_answered(p, core, AGAIN_MS))
			return true;
	}
	return false;
}

void shimos_boot_init(struct shimos_partition *p)
{
	u32 i;

	for (i = 0; i < p->cores; i++)
		if (p->core[i].out)
			shimos_cpu_signal(p->place[i].apic_id, SHIMOS_INIT, 0);
}

/* Starts all cores at entry, or parks them if it is 0; -EIO if one does not
 * answer. */
static int start_all(struct shimos_partition *p, u64 entry,
		     struct shimos_text *why)
{
	u32 i;
	int err = 0;

	mutex_lock(&page_lock);
	if (!page_borrowable(low_pfn)) {
		mutex_unlock(&page_lock);
		shimos_text_add(
			why,
			"the page below 1 MiB that starts cores is in use");
		return -EBUSY;
	}
	borrow_low_page(p);
	shimos_boot_init(p);
	usleep_range(INIT_US, 2 * INIT_US);
	for (i = 0; i < p->cores; i++) {
		if (start_one(p, i, entry))
			continue;
		shimos_text_add(why, "CPU ");
		shimos_text_number(why, p->core[i].cpu);
		shimos_text_add(why, " does not answer");
		err = -EIO;
		break;
	}
	/* A core that did not answer must not start later, when the page is
	 * zero. */
	if (err)
		shimos_boot_init(p);
	give_back();
	mutex_unlock(&page_lock);
	return err;
}

int shimos_boot_start(struct shimos_partition *p, const struct skep_image *h,
		      struct shimos_text *why)
{
	boot_stage(p)->partition =
		SKEP_PARTITION_BASE + shimos_image_partition(h);
	return start_all(p, SKEP_PARTITION_BASE + h->entry, why);
}

int shimos_boot_park(struct shimos_partition *p, struct shimos_text *why)
{
	int err = start_all(p, 0, why);

	shimos_boot_init(p);
	return err;
}
