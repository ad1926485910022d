// SPDX-License-Identifier: MIT
#include "ranges.h"
#include <skep/assert.h>
#include "base/errno.h"

/* The first range that ends above `at`. */
static u32 find_range(const struct shimos_ranges *set, u64 at)
{
	u32 low = 0, high = set->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (set->at[middle].start + set->at[middle].length > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void open_gap(struct shimos_ranges *set, u32 i)
{
	u32 k;

	for (k = set->count++; k > i; k--)
		set->at[k] = set->at[k - 1];
}

static void close_gap(struct shimos_ranges *set, u32 i)
{
	for (set->count--; i < set->count; i++)
		set->at[i] = set->at[i + 1];
}

static int touches_left(const struct shimos_ranges *set, u32 i, u32 node)
{
	const struct skep_partition_range *r = &set->at[i];

	return i && i < set->count && r->node == node && r[-1].node == node &&
	       r[-1].start + r[-1].length == r->start;
}

static void join_left(struct shimos_ranges *set, u32 i)
{
	if (!touches_left(set, i, set->at[i].node))
		return;
	set->at[i - 1].length += set->at[i].length;
	close_gap(set, i);
}

int shimos_ranges_add(struct shimos_ranges *set, u64 start, u64 length,
		      u32 node)
{
	u32 i = find_range(set, start);
	struct skep_partition_range *r = &set->at[i];

	skep_assert(length && start + length > start);
	skep_assert(i == set->count || start + length <= r->start);
	if (i < set->count && start + length == r->start && r->node == node) {
		r->start = start;
		r->length += length;
		if (i)
			join_left(set, i);
		return 0;
	}
	if (i && r[-1].node == node && r[-1].start + r[-1].length == start) {
		r[-1].length += length;
		return 0;
	}
	if (set->count == set->room)
		return -LINUX_ENOSPC;
	open_gap(set, i);
	*r = (struct skep_partition_range){
		.start = start, .length = length, .node = node};
	return 0;
}

u64 shimos_ranges_meet(const struct shimos_ranges *set, u64 start, u64 end)
{
	u32 i = find_range(set, start);

	return i < set->count && set->at[i].start < end ? set->at[i].start
							: end;
}

void shimos_ranges_cut(struct shimos_ranges *set, u32 i, u64 length)
{
	skep_assert(i < set->count && length <= set->at[i].length);
	set->at[i].start += length;
	set->at[i].length -= length;
	if (!set->at[i].length)
		close_gap(set, i);
}

u64 shimos_ranges_number(struct shimos_ranges *set)
{
	u64 offset = 0;
	u32 i;

	for (i = 0; i < set->count; i++) {
		set->at[i].offset = offset;
		offset += set->at[i].length;
	}
	return offset;
}

u64 shimos_ranges_place(const struct shimos_ranges *set, u64 offset, u64 *left)
{
	u32 low = 0, high = set->count - 1, middle;
	const struct skep_partition_range *r;

	skep_assert(set->count);
	while (low < high) {
		middle = low + (high - low + 1) / 2;
		if (set->at[middle].offset <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	r = &set->at[low];
	skep_assert(offset - r->offset < r->length);
	*left = r->length - (offset - r->offset);
	return r->start + (offset - r->offset);
}
