/* SPDX-License-Identifier: MIT */
/* A list of ranges of memory, lowest address first; neighbours are one range.
 */
#ifndef SHIMOS_RANGES_H
#define SHIMOS_RANGES_H

#include <skep/partition.h>

struct shimos_ranges {
	struct skep_partition_range *at;
	u32 count, room;
};

/* 0, or -ENOSPC: the list is full. */
int shimos_ranges_add(struct shimos_ranges *set, u64 start, u64 length,
		      u32 node);
/* Start of the lowest range that overlaps [start, end); end if none does. */
u64 shimos_ranges_meet(const struct shimos_ranges *set, u64 start, u64 end);
/* Takes length bytes from the start of range i. */
void shimos_ranges_cut(struct shimos_ranges *set, u32 i, u64 length);
/* Fills in each range's `offset`; returns the bytes of all. */
u64 shimos_ranges_number(struct shimos_ranges *set);
/* The physical address of an offset in the list; offset < its bytes. Ranges
 * are numbered. `left`: bytes from there to the end of the range.
 */
u64 shimos_ranges_place(const struct shimos_ranges *set, u64 offset, u64 *left);

#endif
