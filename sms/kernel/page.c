// SPDX-License-Identifier: MIT
/*
 * Memory of `kernel` and page tables. Frames are allocated in ascending order
 * and never freed; the module has cleared them. Page tables are never freed, so
 * that no core's page walk uses a frame that has another use now.
 */
#include "kernel.h"

#define ENTRIES 512
/* The last frames are reserved for abi, whose allocations must not fail; page
 * tables of programs do not get them. */
#define SPARE 0x100000

u64 sms_page_root; /* physical */
static u64 next;   /* offset in `kernel` of the first free frame */
static u64 base;   /* physical minus virtual address of `kernel` */
static u64 lazy = AT_LAZY;
static struct spin lock; /* guards `next` and entries of AT_LAZY */

void sms_spin_lock(struct spin *s)
{
	while (__atomic_exchange_n(&s->word, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&s->word, __ATOMIC_RELAXED))
			__builtin_ia32_pause();
}

void sms_spin_unlock(struct spin *s)
{
	__atomic_store_n(&s->word, 0, __ATOMIC_RELEASE);
}

/* Leaves `spare` bytes for others. The module clears what was allocated
 * here. */
static u64 alloc_kernel(u64 bytes, u64 spare)
{
	u64 at = next;

	if (bytes + spare > sms_partition->kernel_size - next)
		return 0;
	next += bytes;
	sms_partition->used_kernel = next;
	return AT_KERNEL + at;
}

u64 sms_page_frames(u64 bytes)
{
	u64 at;

	sms_spin_lock(&lock);
	at = alloc_kernel((bytes + PAGE - 1) & ~(PAGE - 1), SPARE);
	sms_spin_unlock(&lock);
	return at;
}

static u64 *table_of(u64 entry)
{
	return (u64 *)((entry & SMS_PAGE_FRAME) - base);
}

u64 *sms_page_entry(u64 addr, u32 level, int make)
{
	u64 *table = table_of(sms_page_root), at;
	u32 i, shift = 39;

	for (i = 3; i > level; i--, shift -= 9) {
		u64 *entry = &table[addr >> shift & (ENTRIES - 1)];

		if (!*entry && make) {
			at = sms_page_frames(PAGE);
			if (!at)
				return 0;
			*entry = (at + base) | SMS_PAGE_PRESENT |
				 SMS_PAGE_WRITE | SMS_PAGE_USER;
		}
		if (!*entry || *entry & SMS_PAGE_LARGE)
			return 0;
		table = table_of(*entry);
	}
	return &table[addr >> shift & (ENTRIES - 1)];
}

int sms_page_map(u64 addr, u64 physical, u64 flags, u32 level)
{
	u64 *entry = sms_page_entry(addr, level, 1);

	if (!entry)
		return -LINUX_ENOMEM;
	*entry = physical | flags | SMS_PAGE_PRESENT | SMS_PAGE_TOUCHED |
		 (level ? SMS_PAGE_LARGE : 0);
	return 0;
}

int sms_page_split(u64 *entry)
{
	u64 at = sms_page_frames(PAGE), flags, i;

	if (!at)
		return -LINUX_ENOMEM;
	flags = *entry & ~(SMS_PAGE_FRAME | SMS_PAGE_LARGE);
	for (i = 0; i < ENTRIES; i++)
		((u64 *)at)[i] = ((*entry & SMS_PAGE_FRAME) + i * PAGE) | flags;
	*entry =
		(at + base) | SMS_PAGE_PRESENT | SMS_PAGE_WRITE | SMS_PAGE_USER;
	return 0;
}

static void map_all(u64 addr, u64 physical, u64 bytes, u64 flags, u32 level)
{
	u64 step = level ? LARGE : PAGE, at;

	for (at = 0; at < bytes; at += step)
		if (sms_page_map(addr + at, physical + at, flags, level))
			sms_panic("no memory for the first page tables", addr,
				  at);
}

/* Maps the image with its text read-only. */
static void map_kernel(struct skep_partition *p)
{
	u64 text = (u64)sms_text_end - AT_KERNEL;
	u64 image = ((u64)sms_image_end - AT_KERNEL + LARGE - 1) & ~(LARGE - 1);

	map_all(AT_KERNEL, p->kernel_start, text, 0, 0);
	map_all(AT_KERNEL + text, p->kernel_start + text, image - text,
		SMS_PAGE_WRITE | SMS_PAGE_NX, 0);
	map_all(AT_KERNEL + image, p->kernel_start + image,
		p->kernel_size - image, SMS_PAGE_WRITE | SMS_PAGE_NX, 1);
}

void sms_page_begin(struct skep_partition *p)
{
	const struct skep_partition_range *r = skep_partition_ranges(p);
	u32 i;

	next = p->used_kernel = p->free_start;
	base = p->kernel_start - AT_KERNEL;
	sms_page_root = alloc_kernel(PAGE, 0) + base;
	map_kernel(p);
	map_all(AT_MAIL, p->mail_start, p->mail_size,
		SMS_PAGE_WRITE | SMS_PAGE_NX, 1);
	for (i = 0; i < p->ranges; i++)
		map_all(AT_POOL + r[i].offset, r[i].start, r[i].length,
			SMS_PAGE_WRITE | SMS_PAGE_NX, 1);
	if (p->apic_base)
		map_all(AT_APIC, p->apic_base, PAGE,
			SMS_PAGE_WRITE | SMS_PAGE_NX | SMS_PAGE_UNCACHED, 0);
}

/* Called before a second core runs: allocates the page tables. */
void *sms_page_reserve(u64 bytes)
{
	u64 at = lazy, table;

	bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
	if (bytes > AT_LAZY_END - lazy)
		return 0;
	lazy += bytes;
	for (table = at & ~(LARGE - 1); table < lazy; table += LARGE)
		if (!sms_page_entry(table, 0, 1))
			return 0;
	return (void *)at;
}

int sms_page_lazy(u64 addr)
{
	u64 *entry, at;
	int got = 0;

	if (addr < AT_LAZY || addr >= lazy)
		return 0;
	entry = sms_page_entry(addr, 0, 0);
	sms_spin_lock(&lock);
	if (*entry)
		got = 1;
	at = got ? 0 : alloc_kernel(PAGE, 0);
	if (at) {
		*entry = (at + base) | SMS_PAGE_PRESENT | SMS_PAGE_WRITE |
			 SMS_PAGE_TOUCHED | SMS_PAGE_NX;
		got = 1;
	}
	sms_spin_unlock(&lock);
	if (!got)
		sms_panic("its own memory is used up; address", addr, next);
	return got;
}
