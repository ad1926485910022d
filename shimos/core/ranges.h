/* SPDX-License-Identifier: MIT */
/* A list of memory ranges in ascending order; adjacent ranges are merged. */
#ifndef SHIMOS_RANGES_H
#define SHIMOS_RANGES_H

#include <skep/partition.h>

struct shimos_ranges {
	struct skep_partition_range *at;
	u32 count, room;
};

/* 0, or -ENOSPC if the list is full. */
int shimos_ranges_add(struct shimos_ranges *set, u64 start, u64 length,
		      u32 node);
/* Start of the lowest range that overlaps [start, end), or `end` if there is
 * none. */
u64 shimos_ranges_meet(const struct shimos_ranges *set, u64 start, u64 end);
/* Removes length bytes from the start of range i. */
void shimos_ranges_cut(struct shimos_ranges *set, u32 i, u64 length);
/* Sets each range's `offset`; returns the total of bytes. */
u64 shimos_ranges_number(struct shimos_ranges *set);
/* The physical address of an offset, which must be below the total of bytes;
 * call shimos_ranges_number() before. `left`: bytes from there to the end of
 * the range. */
u64 shimos_ranges_place(const struct shimos_ranges *set, u64 offset, u64 *left);

#endif
