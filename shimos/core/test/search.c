// SPDX-License-Identifier: MIT
/*
 * Ranges, and the search for them on machines that are made up: which 2 MiB
 * can be had is a rule, and attempts are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "../search.h"
#include "tests/tap.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)
#define BLOCK (2 * MIB)
#define ROOM 4096

static struct skep_partition_range list[ROOM];
static struct shimos_ranges set;

/* Which blocks can't be had, and which of them are seen without an attempt. */
static struct ground {
	int (*fixed)(u64 block);
	int seen;
	u64 attempts, looks, taken;
	u64 fail_after; /* attempts; then a signal */
} ground;

static int block_never(u64 block)
{
	(void)block;
	return 0;
}

static int every_other(u64 block)
{
	return block % 2 == 0;
}

/* A page that stays in each 64 MiB, at places that look like chance. */
static int block_scattered(u64 block)
{
	return block % 32 == block / 32 * 2654435761u % 32;
}

/* 8 MiB at the top of each GiB, as firmware and devices have it. */
static int block_holes(u64 block)
{
	return block % 512 >= 508;
}

static u64 find_obstacle(void *arg, u64 start, u64 end)
{
	u64 at;

	(void)arg;
	ground.looks += (end - start) / BLOCK;
	for (at = end; ground.seen && at > start; at -= BLOCK)
		if (ground.fixed(at / BLOCK - 1))
			return at - BLOCK;
	return end;
}

static int take_range(void *arg, u64 start, u64 length)
{
	u64 at;

	(void)arg;
	if (++ground.attempts == ground.fail_after)
		return -512; /* of a caller's own */
	for (at = start; at < start + length; at += BLOCK)
		if (ground.fixed(at / BLOCK))
			return -LINUX_EBUSY;
	ground.taken += length;
	return 0;
}

static void reset_ground(int (*fixed)(u64), int seen, u32 room)
{
	memset(&ground, 0, sizeof(ground));
	ground.fixed = fixed;
	ground.seen = seen;
	set = (struct shimos_ranges){list, 0, room};
}

/* Sorted, apart, aligned, without what can't be had, and all that was taken. */
static int set_sound(u64 bytes)
{
	u64 sum = 0, end = 0, at;
	u32 i;

	for (i = 0; i < set.count; i++) {
		if (set.at[i].start % BLOCK || !set.at[i].length ||
		    (i && set.at[i].start <= end &&
		     set.at[i].node == set.at[i - 1].node))
			return 0;
		end = set.at[i].start + set.at[i].length;
		for (at = set.at[i].start; at < end; at += BLOCK)
			if (ground.fixed(at / BLOCK))
				return 0;
		sum += set.at[i].length;
	}
	return sum == bytes && sum == ground.taken;
}

static int search_memory(u64 start, u64 end, u64 bytes)
{
	const struct shimos_zone zone = {start,	  end,		 0,
					 &ground, find_obstacle, take_range};

	return shimos_search(&set, &zone, 1, bytes);
}

static void test_ranges(void)
{
	u64 left;

	reset_ground(block_never, 0, 3);
	tap_ok(!shimos_ranges_add(&set, 8 * MIB, BLOCK, 0) &&
		       !shimos_ranges_add(&set, 12 * MIB, BLOCK, 0) &&
		       !shimos_ranges_add(&set, 10 * MIB, BLOCK, 0) &&
		       set.count == 1 && list[0].length == 6 * MIB,
	       "ranges: a range that closes a gap joins both sides");
	tap_ok(!shimos_ranges_add(&set, 6 * MIB, BLOCK, 0) &&
		       !shimos_ranges_add(&set, 14 * MIB, BLOCK, 0) &&
		       set.count == 1 && list[0].start == 6 * MIB &&
		       list[0].length == 10 * MIB,
	       "ranges: a neighbour on either side is joined");
	tap_ok(!shimos_ranges_add(&set, 16 * MIB, BLOCK, 1) && set.count == 2,
	       "ranges: neighbours of different nodes are not joined");
	tap_ok(!shimos_ranges_add(&set, 2 * MIB, BLOCK, 0) &&
		       shimos_ranges_add(&set, 32 * MIB, BLOCK, 0) ==
			       -LINUX_ENOSPC &&
		       !shimos_ranges_add(&set, 18 * MIB, BLOCK, 1) &&
		       set.count == 3,
	       "ranges: a full list accepts only neighbours");
	tap_ok(shimos_ranges_meet(&set, 4 * MIB, 8 * MIB) == 6 * MIB &&
		       shimos_ranges_meet(&set, 8 * MIB, 10 * MIB) == 6 * MIB &&
		       shimos_ranges_meet(&set, 4 * MIB, 6 * MIB) == 6 * MIB &&
		       shimos_ranges_meet(&set, 20 * MIB, GIB) == GIB,
	       "ranges: overlaps are found");
	tap_ok(shimos_ranges_number(&set) == 16 * MIB &&
		       shimos_ranges_place(&set, 0, &left) == 2 * MIB &&
		       left == BLOCK &&
		       shimos_ranges_place(&set, 13 * MIB, &left) == 17 * MIB &&
		       left == 3 * MIB &&
		       shimos_ranges_place(&set, 2 * MIB, &left) == 6 * MIB,
	       "ranges: an offset leads to an address");
	shimos_ranges_cut(&set, 0, BLOCK);
	shimos_ranges_cut(&set, 0, BLOCK);
	tap_ok(set.count == 2 && list[0].start == 8 * MIB &&
		       list[0].length == 8 * MIB && list[1].node == 1,
	       "ranges: a range cut to length 0 is removed");
}

static void test_large(void)
{
	reset_ground(block_never, 0, 1);
	tap_ok(!search_memory(4 * GIB, 3 * TIB, 2 * TIB) && set.count == 1 &&
		       set_sound(2 * TIB) && ground.attempts == 2048,
	       "search: 2 TiB are one range, by an attempt for each GiB");
	reset_ground(block_holes, 1, ROOM);
	tap_ok(!search_memory(4 * GIB, 3 * TIB, 2 * TIB) &&
		       set_sound(2 * TIB) && set.count < 3100,
	       "search: 2 TiB with a hole in each GiB, in some 3000 ranges");
	printf("# %u ranges, %llu attempts\n", set.count, ground.attempts);
	/* Each size passes the 3 TiB once: fewer than a look for each block. */
	tap_ok(ground.looks < 11 * (3 * TIB / BLOCK) &&
		       ground.attempts < 16 * 2048,
	       "search: no part of a zone is searched twice");
}

static void test_small(void)
{
	reset_ground(every_other, 1, 1024);
	tap_ok(!search_memory(0, 4 * GIB, 2 * GIB - 2 * MIB) &&
		       set_sound(2 * GIB - 2 * MIB) && set.count == 1023,
	       "search: every other block of 4 GiB");
	reset_ground(every_other, 1, 1024);
	tap_ok(search_memory(0, 4 * GIB, 2 * GIB + 2 * MIB) == -LINUX_ENOMEM &&
		       set_sound(2 * GIB),
	       "search: fails with ENOMEM above what can be had");
	reset_ground(block_scattered, 0, ROOM);
	tap_ok(!search_memory(0, 64 * GIB, 60 * GIB) && set_sound(60 * GIB) &&
		       set.count < 1300,
	       "search: pages that stay in each 64 MiB, found by attempts");
	printf("# %u ranges, %llu attempts\n", set.count, ground.attempts);
	tap_ok(ground.attempts < 8 * (64 * GIB / BLOCK),
	       "search: few attempts for each block");
	reset_ground(block_scattered, 1, 100);
	tap_ok(search_memory(0, 64 * GIB, 60 * GIB) == -LINUX_ENOSPC &&
		       set.count == 100,
	       "search: more pieces than the list can hold");
}

static void test_ends(void)
{
	reset_ground(block_never, 0, ROOM);
	ground.fail_after = 3;
	tap_ok(search_memory(0, 8 * GIB, 4 * GIB) == -512 && set_sound(2 * GIB),
	       "search: a signal ends it, and the ranges found are listed");
	reset_ground(block_never, 0, ROOM);
	tap_ok(search_memory(3 * MIB, 7 * MIB, BLOCK) == 0 &&
		       list[0].start == 4 * MIB,
	       "search: whole blocks of a zone with unaligned ends");
	reset_ground(block_never, 0, ROOM);
	tap_ok(!search_memory(0, BLOCK, BLOCK) &&
		       !search_memory(4 * MIB, 6 * MIB, BLOCK) &&
		       set.count == 2 && !list[0].start &&
		       list[1].start == 4 * MIB,
	       "search: a zone is searched to its beginning, also at 0");
	reset_ground(block_never, 0, ROOM);
	tap_ok(search_memory(3 * MIB, 5 * MIB, BLOCK) == -LINUX_ENOMEM &&
		       !set.count,
	       "search: a zone without a whole block");
	reset_ground(block_never, 0, ROOM);
	tap_ok(!search_memory(0, 8 * GIB, 3 * GIB + 6 * MIB) &&
		       set.count == 1 && set_sound(3 * GIB + 6 * MIB),
	       "search: an odd number of blocks is one range too");
}

int main(void)
{
	test_ranges();
	test_large();
	test_small();
	test_ends();
	return tap_done();
}
