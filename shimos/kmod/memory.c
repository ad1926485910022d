// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory on its way from Linux and back: ranges of whole 2 MiB blocks, found
 * from the top of each zone and emptied by moving what lies there. It stays in
 * Linux's direct map, through which it is cleared. Owns nothing; the caller
 * holds the partition's lock.
 */
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "partition.h"

#define BLOCK (SZ_2M >> PAGE_SHIFT)
#define LONGEST (SZ_1G >> PAGE_SHIFT) /* so that a signal waits not long */

/* The first page from the end that rules this range out, or 0. It only spares
 * the trouble of an attempt.
 */
static unsigned long obstacle(struct zone *zone, unsigned long start,
			      unsigned long pages)
{
	unsigned long pfn;
	struct page *page;

	for (pfn = start + pages; pfn-- > start;) {
		page = pfn_to_online_page(pfn);
		if (!page || page_zone(page) != zone || PageReserved(page) ||
		    PageHuge(page))
			return pfn;
	}
	return 0;
}

/* A signal whose handler restarts calls, as those of Go's run-time, starts all
 * anew.
 */
static int attempt(unsigned long start, unsigned long pages)
{
	int err;

	if (signal_pending(current))
		return -ERESTARTSYS;
	cond_resched();
	err = alloc_contig_range(start, start + pages, MIGRATE_MOVABLE,
				 GFP_KERNEL | __GFP_NOWARN);
	return err == -EINTR ? -ERESTARTSYS : err;
}

/* The range's start, 0: there is none, or -ERESTARTSYS. */
static long find_in(struct zone *zone, unsigned long pages)
{
	unsigned long start, bad, end = zone_end_pfn(zone);
	int err;

	end = ALIGN_DOWN(end, BLOCK);
	while (end >= zone->zone_start_pfn + pages) {
		start = end - pages;
		bad = obstacle(zone, start, pages);
		if (bad) {
			end = ALIGN_DOWN(bad, BLOCK);
			continue;
		}
		err = attempt(start, pages);
		if (!err)
			return start;
		if (err == -ERESTARTSYS)
			return err;
		end -= max_t(unsigned long, BLOCK,
			     ALIGN_DOWN(pages / 4, BLOCK));
	}
	return 0;
}

static long find(int node, unsigned long pages)
{
	static const int order[] = {ZONE_MOVABLE, ZONE_NORMAL, ZONE_DMA32};
	struct zone *zone;
	long start = 0;
	u32 i;

	for (i = 0; !start && i < ARRAY_SIZE(order); i++) {
		zone = &NODE_DATA(node)->node_zones[order[i]];
		if (populated_zone(zone))
			start = find_in(zone, pages);
	}
	return start;
}

static int take(struct shimos_partition *p, int node, unsigned long pages)
{
	unsigned long most = min_t(unsigned long, pages, LONGEST);
	struct skep_partition_range *r;
	long start;

	while (pages) {
		most = min(most, pages);
		start = find(node, most);
		if (start < 0)
			return start;
		if (!start) {
			if (most == BLOCK)
				return -ENOMEM;
			most = ALIGN_DOWN(most / 2, BLOCK);
			continue;
		}
		r = &p->range[p->ranges++];
		r->start = PFN_PHYS(start);
		r->length = (u64)most << PAGE_SHIFT;
		r->node = node;
		pages -= most;
		if (pages && p->ranges == SKEP_PARTITION_RANGES)
			return -ENOMEM;
	}
	return 0;
}

int shimos_memory_take(struct shimos_partition *p, struct shimos_text *why)
{
	int node, err = 0;

	for (node = 0; node < SHIMOS_NODES && !err; node++)
		if (p->request.bytes[node])
			err = take(p, node,
				   p->request.bytes[node] >> PAGE_SHIFT);
	if (!err)
		return 0;
	if (err == -ENOMEM) {
		shimos_text_add(why, "Linux could not free that much memory in "
				     "blocks of 2 MiB: ask for less, or try "
				     "again when programs have ended");
	}
	shimos_memory_return(p);
	return err;
}

void shimos_memory_return(struct shimos_partition *p)
{
	struct skep_partition_range *r;
	unsigned long pfn, end;

	for (r = p->range; r < p->range + p->ranges; r++) {
		end = PHYS_PFN(r->start + r->length);
		for (pfn = PHYS_PFN(r->start); pfn < end; pfn += BLOCK) {
			free_contig_range(pfn, BLOCK);
			cond_resched();
		}
	}
	p->ranges = 0;
}

void shimos_memory_clear(struct shimos_partition *p)
{
	struct skep_partition_range *r;
	u64 at;

	for (r = p->range; r < p->range + p->ranges; r++) {
		for (at = r->start; at < r->start + r->length; at += SZ_64K) {
			memset(phys_to_virt(at), 0, SZ_64K);
			cond_resched();
		}
	}
}
