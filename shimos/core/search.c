// SPDX-License-Identifier: MIT
#include "search.h"
#include "base/errno.h"

#define BLOCK ((u64)SKEP_PARTITION_ALIGN)

static u64 align_down(u64 n)
{
	return n & ~(BLOCK - 1);
}

/* How far to step down from a block that is not available now. */
static u64 step_down(u64 length)
{
	return length / 4 > BLOCK ? align_down(length / 4) : BLOCK;
}

/* One pass over a zone for blocks of `size`; *left: bytes that are missing. */
static int search_zone(struct shimos_ranges *set, const struct shimos_zone *z,
		       u64 size, u64 *left)
{
	u64 end = align_down(z->end), start, bad;
	int err;

	while (*left) {
		if (size > *left)
			size = *left;
		if (end < size || end - size < z->start)
			return 0;
		start = end - size;
		bad = shimos_ranges_meet(set, start, end);
		if (bad == end)
			bad = z->obstacle(z->arg, start, end);
		if (bad < end) {
			end = align_down(bad);
			continue;
		}
		err = z->take(z->arg, start, size);
		if (!err)
			err = shimos_ranges_add(set, start, size, z->node);
		if (err && err != -LINUX_EBUSY)
			return err;
		*left -= err ? 0 : size;
		end -= err ? step_down(size) : size;
	}
	return 0;
}

int shimos_search(struct shimos_ranges *set, const struct shimos_zone *zone,
		  u32 zones, u64 bytes)
{
	u64 size = bytes < SHIMOS_SEARCH_MAX ? bytes : SHIMOS_SEARCH_MAX;
	u32 i;
	int err;

	for (; bytes; size = align_down(size / 2)) {
		if (!size)
			return -LINUX_ENOMEM;
		for (i = 0; i < zones && bytes; i++) {
			err = search_zone(set, &zone[i], size, &bytes);
			if (err)
				return err;
		}
	}
	return 0;
}
