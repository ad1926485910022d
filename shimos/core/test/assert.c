// SPDX-License-Identifier: MIT
/* What callers have promised: sanitizer builds trap where it does not hold. */
#include <string.h>

#include "../ranges.h"
#include "../tables.h"
#include "../text.h"
#include "tests/trap.h"

#define BLOCK 0x200000ull

static struct skep_partition_range list[4];
static struct shimos_ranges set;

/* One range of two blocks, and what an older one left behind it. */
static void begin_ranges(void)
{
	memset(list, 0, sizeof(list));
	list[0].start = list[1].start = 8 * BLOCK;
	list[0].length = list[1].length = 2 * BLOCK;
	set = (struct shimos_ranges){list, 1, 4};
}

static void add_nothing(void)
{
	begin_ranges();
	shimos_ranges_add(&set, 32 * BLOCK, 0, 0);
}

static void add_around_the_end(void)
{
	begin_ranges();
	shimos_ranges_add(&set, ~0ull - BLOCK + 1, 2 * BLOCK, 0);
}

static void add_what_is_there(void)
{
	begin_ranges();
	shimos_ranges_add(&set, 7 * BLOCK, 2 * BLOCK, 0);
}

static void cut_behind_the_last(void)
{
	begin_ranges();
	shimos_ranges_cut(&set, 1, BLOCK);
}

static void cut_too_much(void)
{
	begin_ranges();
	shimos_ranges_cut(&set, 0, 3 * BLOCK);
}

static void find_place(u32 count, u64 offset)
{
	u64 left;

	begin_ranges();
	set.count = count;
	shimos_ranges_number(&set);
	shimos_ranges_place(&set, offset, &left);
}

static void place_behind_the_last(void)
{
	find_place(1, 2 * BLOCK);
}

static void place_in_nothing(void)
{
	find_place(0, 0);
}

static void table_of_others(void)
{
	static u64 pages[4][512];
	struct shimos_tables t;

	shimos_tables_begin(&t, pages, 0x7f000000, 4);
	pages[0][0] = 0x7f002003;
	shimos_tables_map(&t, 0x1000, 0x1000, 0);
}

static void text_without_room(void)
{
	struct shimos_text t;
	char at[1];

	shimos_text_begin(&t, at, 0);
}

int main(void)
{
	TRAPS(add_nothing, "a range of length 0 is not added");
	TRAPS(add_around_the_end, "a range that wraps is not added");
	TRAPS(add_what_is_there, "a range that overlaps another is not added");
	TRAPS(cut_behind_the_last, "only a range of the list is cut");
	TRAPS(cut_too_much, "a range is cut by no more than its length");
	TRAPS(place_behind_the_last, "an offset lies within the ranges");
	TRAPS(place_in_nothing, "an offset needs a range");
	TRAPS(table_of_others, "a page table points to tables that exist");
	TRAPS(text_without_room, "a text has space for its terminator");
	return tap_done();
}
