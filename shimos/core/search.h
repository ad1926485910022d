/* SPDX-License-Identifier: MIT */
/*
 * Searches for memory to lend: each zone from its top down, first for large
 * blocks, then for smaller ones in between. A search continues where the last
 * block was found, so it passes each zone once per size.
 */
#ifndef SHIMOS_SEARCH_H
#define SHIMOS_SEARCH_H

#include "ranges.h"

/* The most that one step takes, so that a signal is handled soon. */
#define SHIMOS_SEARCH_MAX 0x40000000

struct shimos_zone {
	u64 start, end; /* physical */
	u32 node;
	void *arg; /* passed to both callbacks */
	/* The lowest address of an obstacle in [start, end) above which nothing
	 * can be lent up to `end`, or `end` if there is none. It only saves
	 * attempts. */
	u64 (*obstacle)(void *arg, u64 start, u64 end);
	/* Allocates the range. 0; -EBUSY: not available now; any other error
	 * ends the search. */
	int (*take)(void *arg, u64 start, u64 length);
};

/* Adds `bytes` of the zones to the list, beginning with the first zone. After
 * an error the list contains what was found. -ENOMEM: there is not enough. */
int shimos_search(struct shimos_ranges *set, const struct shimos_zone *zone,
		  u32 zones, u64 bytes);

#endif
