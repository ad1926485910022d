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

/* 0, or -ENOSPC: it is a range more than there is room for. */
int shimos_ranges_add(struct shimos_ranges *set, u64 start, u64 length,
		      u32 node);
/* Where the lowest range that meets [start, end) begins; end: none does. */
u64 shimos_ranges_meet(const struct shimos_ranges *set, u64 start, u64 end);
/* Takes length bytes from the start of range i. */
void shimos_ranges_cut(struct shimos_ranges *set, u32 i, u64 length);
/* Fills in what each range's `offset` is; the bytes of all of them. */
u64 shimos_ranges_number(struct shimos_ranges *set);
/* The physical address of an offset in the list; offset < its bytes. Ranges
 * are numbered. `left`: bytes from there to the end of the range.
 */
u64 shimos_ranges_place(const struct shimos_ranges *set, u64 offset, u64 *left);

#endif
