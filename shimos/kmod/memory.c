// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocates memory from Linux and returns it: ranges of 2 MiB blocks, searched
 * from the top of each zone and emptied by page migration. Owns nothing; the
 * partition's lock is held. Process context, and may sleep.
 */
#include <linux/gfp.h>
#include <linux/lockdep.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "partition.h"
#include <shimos/core/search.h>

#define BLOCK (SZ_2M >> PAGE_SHIFT)
#define ZONES 3 /* zones of a node that are searched */

/* A zone, and the partition whose list grows. */
struct search {
	struct shimos_partition *p;
	struct zone *zone;
};

static u64 find_obstacle(void *arg, u64 start, u64 end)
{
	struct zone *zone = ((struct search *)arg)->zone;
	unsigned long pfn;
	struct page *page;

	for (pfn = PHYS_PFN(end); pfn-- > PHYS_PFN(start);) {
		page = pfn_to_online_page(pfn);
		if (!page || page_zone(page) != zone || PageReserved(page) ||
		    PageHuge(page))
			return PFN_PHYS(pfn);
	}
	return end;
}

/* Doubles the list's capacity, up to the limit of a list. */
static int grow_ranges(struct shimos_ranges *set)
{
	u32 room = set->room ? 2 * set->room : 64;
	struct skep_partition_range *at;

	if (room > SKEP_PARTITION_RANGES)
		return -ENOSPC;
	at = kvmalloc_array(room, sizeof(*at), GFP_KERNEL);
	if (!at)
		return -ENOSPC;
	if (set->count)
		memcpy(at, set->at, set->count * sizeof(*at));
	kvfree(set->at);
	set->at = at;
	set->room = room;
	return 0;
}

/* After a signal with SA_RESTART, as Go's run-time uses it, the whole call is
 * restarted. Space in the list is allocated before the range. */
static int alloc_range(void *arg, u64 start, u64 length)
{
	struct shimos_ranges *set = &((struct search *)arg)->p->range;
	int err = 0;

	if (signal_pending(current))
		return -ERESTARTSYS;
	cond_resched();
	if (set->count == set->room)
		err = grow_ranges(set);
	if (err)
		return err;
	err = alloc_contig_range(PHYS_PFN(start), PHYS_PFN(start + length),
				 MIGRATE_MOVABLE, GFP_KERNEL | __GFP_NOWARN);
	if (err == -EINTR)
		return -ERESTARTSYS;
	return err ? -EBUSY : 0;
}

static int take_ranges(struct shimos_partition *p, int node, u64 bytes)
{
	static const int order[ZONES] = {ZONE_MOVABLE, ZONE_NORMAL, ZONE_DMA32};
	struct shimos_zone zones[ZONES];
	struct search search[ZONES];
	struct zone *zone;
	u32 i, n = 0;

	for (i = 0; i < ZONES; i++) {
		zone = &NODE_DATA(node)->node_zones[order[i]];
		if (!populated_zone(zone))
			continue;
		search[n] = (struct search){.p = p, .zone = zone};
		zones[n] = (struct shimos_zone){
			.start = PFN_PHYS(zone->zone_start_pfn),
			.end = PFN_PHYS(zone_end_pfn(zone)),
			.node = node,
			.arg = &search[n],
			.obstacle = find_obstacle,
			.take = alloc_range};
		n++;
	}
	return shimos_search(&p->range, zones, n, bytes);
}

static void explain_shortage(int err, struct shimos_text *why)
{
	if (err == -ENOMEM)
		shimos_text_add(why, "Linux could not free that much memory in "
				     "blocks of 2 MiB: request less, or try "
				     "again when programs have ended");
	if (err == -ENOSPC)
		shimos_text_add(
			why,
			"the memory that Linux could free is too fragmented: "
			"request less, or try again when programs have ended");
}

int shimos_memory_take(struct shimos_partition *p, struct shimos_text *why)
{
	int node, err = 0;

	lockdep_assert_held(&p->lock);
	for (node = 0; node < SHIMOS_NODES && !err; node++)
		if (p->request.bytes[node])
			err = take_ranges(p, node, p->request.bytes[node]);
	if (!err)
		return 0;
	explain_shortage(err, why);
	shimos_memory_return(p);
	return err == -ENOSPC ? -ENOMEM : err;
}

void shimos_memory_return(struct shimos_partition *p)
{
	struct skep_partition_range *r;
	unsigned long pfn, end;

	lockdep_assert_held(&p->lock);
	for (r = p->range.at; r < p->range.at + p->range.count; r++) {
		end = PHYS_PFN(r->start + r->length);
		for (pfn = PHYS_PFN(r->start); pfn < end; pfn += BLOCK) {
			free_contig_range(pfn, BLOCK);
			cond_resched();
		}
	}
	kvfree(p->range.at);
	kvfree(p->plan.pool.at);
	kvfree(p->used);
	p->used = NULL;
	memset(&p->range, 0, sizeof(p->range));
	memset(&p->plan, 0, sizeof(p->plan));
}
