/* SPDX-License-Identifier: MIT */
/*
 * Searches for memory to lend: each zone from its top down, first for large
 * pieces, then for the gaps between them. A search continues where the last
 * piece was found, so it passes each zone once per size.
 */
#ifndef SHIMOS_SEARCH_H
#define SHIMOS_SEARCH_H

#include "ranges.h"

#define SHIMOS_SEARCH_MAX 0x40000000 /* so that a signal is handled soon */

struct shimos_zone {
	u64 start, end; /* physical */
	u32 node;
	void *arg; /* for the two calls */
	/* What rules out a piece of [start, end), seen from its end: everything
	 * from that address to `end` can be left out. end: nothing does. It
	 * only spares attempts. */
	u64 (*obstacle)(void *arg, u64 start, u64 end);
	/* 0: it is ours; -EBUSY: not now; any other error ends the search. */
	int (*take)(void *arg, u64 start, u64 length);
};

/* Adds `bytes` of the zones to the list, those of the first zone first. What
 * was found stays there when it fails. -ENOMEM: there is not so much.
 */
int shimos_search(struct shimos_ranges *set, const struct shimos_zone *zone,
		  u32 zones, u64 bytes);

#endif
