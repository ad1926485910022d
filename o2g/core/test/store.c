/* SPDX-License-Identifier: MIT */
/* The pool, the slab and the table alone: their limits, and memory that ends at
 * any allocation. */
#include <o2g/core/pool.h>
#include <o2g/core/slab.h>
#include <o2g/core/table.h>

#include "pair.h"
#include "suite.h"

#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static check_fn *check;

struct thing {
	struct o2g_member member;
	u8 byte[20];
};

#define THINGS 1100u /* more chunks than the first array has places for */

static void test_pool(struct bed *bed)
{
	static struct thing *thing[THINGS];
	const u64 before = bed->allocated;
	struct o2g_pool pool = {0};
	u32 wrong = 0;

	o2g_pool_make(&pool, &bed->host, sizeof(struct thing), THINGS);
	TRUE(!o2g_pool_at(&pool, 0) && !o2g_pool_warm(&pool));
	for (u32 i = 0; i < THINGS; i++) {
		check(!o2g_pool_at(&pool, i), "a number in no use has nothing");
		thing[i] = o2g_pool_take(&pool);
		wrong += !thing[i] || o2g_pool_at(&pool, i) != thing[i] ||
			 thing[i]->member.index != i ||
			 thing[i]->member.generation != 1;
	}
	check(!wrong && !o2g_pool_take(&pool) && pool.used == THINGS,
	      "a pool has as many objects as its limit");
	check(!o2g_pool_at(&pool, THINGS) && !o2g_pool_at(&pool, pool.made) &&
		      !o2g_pool_at(&pool, ~0u),
	      "and no number beyond them");
	memset(thing[7]->byte, 0xee, sizeof(thing[7]->byte));
	o2g_pool_give(&pool, thing[7]);
	o2g_pool_give(&pool, thing[1099]);
	TRUE(!o2g_pool_at(&pool, 7) && o2g_pool_at(&pool, 8) == thing[8]);
	TRUE(o2g_pool_take(&pool) == thing[1099]);
	TRUE(o2g_pool_take(&pool) == thing[7] && !o2g_pool_take(&pool));
	for (u32 i = 0; i < sizeof(thing[7]->byte); i++)
		wrong += thing[7]->byte[i] != 0;
	check(!wrong && thing[7]->member.generation == 2,
	      "one that comes again is empty and has a new generation");
	for (u32 i = 0; i < THINGS; i++)
		wrong += o2g_pool_at(&pool, i) != thing[i];
	check(!wrong, "a pool that grows keeps its objects");
	o2g_pool_free(&pool);
	TRUE(bed->allocated == before);
	o2g_pool_make(&pool, &bed->host, 16, 1);
	TRUE(!o2g_pool_at(&pool, 0));
}

/* Allocation n fails: what was there stays, and later there is more. */
static void pool_without_memory(struct bed *bed)
{
	const u64 before = bed->allocated;

	for (u64 n = 1; n < 40; n++) {
		struct o2g_pool pool = {0};
		u32 taken = 0;

		o2g_pool_make(&pool, &bed->host, sizeof(struct thing), THINGS);
		bed->fail_after = n;
		if (n == 1)
			TRUE(o2g_pool_warm(&pool) == -LINUX_ENOMEM);
		while (o2g_pool_take(&pool))
			taken++;
		bed->fail_after = 0;
		TRUE(taken == pool.used &&
		     taken % 32 == (taken == THINGS) * 12);
		while (o2g_pool_take(&pool))
			taken++;
		check(taken == THINGS, "a pool goes on when there is memory");
		o2g_pool_free(&pool);
		TRUE(bed->allocated == before);
	}
}

static void slab_sizes(struct bed *bed)
{
	const u64 base = 0x10000, unit = O2G_SLAB_UNIT;
	struct o2g_slab slab = {0};
	u64 at, length;

	TRUE(!o2g_slab_make(&slab, &bed->host, base, 7 * unit + 255));
	check(slab.units == 7, "a slab has whole units");
	check(o2g_slab_take(&slab, 4 * unit) == base &&
		      !o2g_slab_take(&slab, 2 * unit + 1) &&
		      o2g_slab_take(&slab, unit + 1) == base + 4 * unit &&
		      o2g_slab_take(&slab, unit) == base + 6 * unit &&
		      !o2g_slab_take(&slab, 1),
	      "blocks are the next power of two, and one behind the other");
	for (u64 offset = base - 1; offset <= base + 7 * unit + 1; offset++)
		if (o2g_slab_release(&slab, offset) != -LINUX_ENOENT)
			TRUE(!"released");
	o2g_slab_lend(&slab, base + 4 * unit);
	for (u64 offset = base; offset <= base + 7 * unit; offset++)
		if (offset != base + 4 * unit &&
		    o2g_slab_release(&slab, offset) != -LINUX_ENOENT)
			TRUE(!"released");
	check(!o2g_slab_release(&slab, base + 4 * unit) &&
		      o2g_slab_release(&slab, base + 4 * unit) == -LINUX_ENOENT,
	      "a lent block is released once, by its own offset");
	o2g_slab_give(&slab, base + 6 * unit);
	o2g_slab_give(&slab, base);
	at = o2g_slab_borrow(&slab, 4 * unit, &length);
	check(at == base && length == 4 * unit &&
		      o2g_slab_borrow(&slab, 0, &length) == base + 4 * unit &&
		      length == 2 * unit &&
		      !o2g_slab_borrow(&slab, unit + 1, &length) &&
		      o2g_slab_borrow(&slab, unit, &length) == base + 6 * unit,
	      "halves that are free become one again");
	o2g_slab_free(&slab);
	TRUE(!o2g_slab_make(&slab, &bed->host, base, unit - 1));
	check(!slab.units && !o2g_slab_take(&slab, 1) &&
		      o2g_slab_release(&slab, base) == -LINUX_ENOENT,
	      "a slab below one unit has nothing");
	o2g_slab_free(&slab);
}

#define BLOCKS 200
#define UNITS 3000

static u8 owner[UNITS]; /* block + 1 that has this unit */

/* Writes `now` over the units of a block; how many were not `was`. */
static u32 mark_units(u64 first, u64 size, u8 was, u8 now)
{
	u32 wrong = 0;

	for (u64 at = first; at < first + (size + 255) / 256; at++) {
		wrong += at >= UNITS || owner[at] != was;
		if (at < UNITS)
			owner[at] = now;
	}
	return wrong;
}

/* Takes and gives in any order, against a map of the units. */
static void slab_random(struct bed *bed)
{
	const u64 base = 0x4000, before = bed->allocated;
	u64 offset[BLOCKS] = {0}, size[BLOCKS] = {0}, length;
	struct o2g_slab slab = {0};
	u32 seed = 1, wrong = 0, full = 0;

	TRUE(!o2g_slab_make(&slab, &bed->host, base, UNITS * O2G_SLAB_UNIT));
	for (u32 step = 0; step < 20000; step++) {
		const u32 n = (seed = seed * 1664525 + 1013904223) % BLOCKS;
		const u64 first = (offset[n] - base) / O2G_SLAB_UNIT;

		if (offset[n]) {
			wrong += mark_units(first, size[n], (u8)(n + 1), 0);
			o2g_slab_give(&slab, offset[n]);
			offset[n] = 0;
			continue;
		}
		size[n] = 1 + (seed >> 8) % (O2G_SLAB_UNIT * 40);
		offset[n] = o2g_slab_take(&slab, size[n]);
		full += !offset[n];
		if (offset[n])
			wrong += mark_units((offset[n] - base) / O2G_SLAB_UNIT,
					    size[n], 0, (u8)(n + 1));
	}
	check(!wrong && full, "no two blocks of a slab share a unit");
	for (u32 n = 0; n < BLOCKS; n++)
		if (offset[n])
			o2g_slab_give(&slab, offset[n]);
	TRUE(o2g_slab_borrow(&slab, 0, &length) == base &&
	     length == 2048 * O2G_SLAB_UNIT);
	o2g_slab_free(&slab);
	TRUE(bed->allocated == before);
}

static void slab_without_memory(struct bed *bed)
{
	const u64 before = bed->allocated;
	const u64 size = 1024 * O2G_SLAB_UNIT;

	for (u64 n = 1; n < 6; n++) {
		struct o2g_slab slab = {0};
		u32 taken = 0;
		int rc;

		bed->fail_after = n;
		rc = o2g_slab_make(&slab, &bed->host, 256, size);
		TRUE(rc == (n < 3 ? -LINUX_ENOMEM : 0));
		while (!rc && o2g_slab_take(&slab, 1))
			taken++;
		bed->fail_after = 0;
		while (!rc && o2g_slab_take(&slab, 1))
			taken++;
		check(rc || taken == 1024,
		      "a slab loses nothing where memory ends");
		o2g_slab_free(&slab);
		TRUE(bed->allocated == before);
	}
}

#define KEYS 5000u

static struct o2g_key key_of(u32 n)
{
	return (struct o2g_key){.kind = n % 3,
				.context = n / 3 % 5,
				.source = n / 15 % 7,
				.tag = n / 105};
}

/* How many of the first `made` keys are not found, or a later one is. */
static u32 table_wrong(struct o2g_table *table, struct o2g_knot *knot, u32 made)
{
	u32 wrong = 0;

	for (u32 n = 0; n < KEYS; n++) {
		const struct o2g_key key = key_of(n);

		wrong += o2g_table_find(table, &key) !=
			 (n < made ? &knot[n] : 0);
	}
	return wrong;
}

static void test_table(struct bed *bed, u64 fail_after)
{
	static struct o2g_knot knot[KEYS], twin;
	const u64 before = bed->allocated;
	const u8 secret[16] = {3};
	struct o2g_table table = {0};
	u32 wrong = 0;

	memset(knot, 0, sizeof(knot));
	TRUE(!o2g_table_make(&table, &bed->host, secret));
	bed->fail_after = fail_after;
	for (u32 n = 0; n < KEYS; n++) {
		const struct o2g_key key = key_of(n);

		o2g_table_add(&table, &knot[n], &key);
		if (n % 500 == 77 || n == 64 || n == 65)
			wrong += table_wrong(&table, knot, n + 1);
	}
	bed->fail_after = 0;
	check(!wrong && table.keys == KEYS,
	      "a table that grows has each key at any time");
	table.compared = 0;
	TRUE(!table_wrong(&table, knot, KEYS));
	if (!fail_after)
		check(table.compared < 3ull * KEYS && table.buckets >= KEYS &&
			      table.buckets < 4 * KEYS &&
			      table.rehashed < 2ull * KEYS,
		      "its chains stay short, and each key moves a few times");
	for (u32 n = KEYS; n-- > 0;) {
		const struct o2g_key key = key_of(n);

		o2g_table_add(&table, &twin, &key);
		wrong += o2g_table_find(&table, &key) != &knot[n] ||
			 knot[n].next != &twin || twin.next != &knot[n];
		o2g_table_remove(&table, &knot[n]);
		wrong += o2g_table_find(&table, &key) != &twin ||
			 twin.next != &twin || twin.prev != &twin;
		o2g_table_remove(&table, &twin);
		if (n % 1000 == 3)
			wrong += table_wrong(&table, knot, n);
	}
	check(!wrong && !table.keys, "a key has its nodes in their order");
	o2g_table_free(&table);
	TRUE(bed->allocated == before);
}

void store_run(check_fn *with)
{
	check = with;
	pair_open(&p, &pair_plain, 0x10000);
	test_pool(&p.bed[0]);
	pool_without_memory(&p.bed[0]);
	slab_sizes(&p.bed[0]);
	slab_random(&p.bed[0]);
	slab_without_memory(&p.bed[0]);
	test_table(&p.bed[0], 0);
	test_table(&p.bed[0], 1);
	test_table(&p.bed[0], 3);
	TRUE(pair_close(&p));
}
