/* SPDX-License-Identifier: MIT */
/* Limits and counts, each at the place where it just holds. */
#include "pair.h"
#include "suite.h"

#define TRUE(condition) check(!!(condition), #condition)

static struct pair p;
static u8 body[100];
static check_fn *check;

/* Parts begin at pages, and no page lies between them. */
static void area_layout(void)
{
	const u64 rings =
		sizeof(struct o2g_area) +
		16 * (sizeof(struct o2g_sqe) + sizeof(struct o2g_cqe));
	const u64 first = (rings + 4095) / 4096 * 4096;
	struct o2g_area area;
	u64 size = 0;

	TRUE(o2g_area_size(16, 16, 4096, 8192, &size) == 0);
	TRUE(o2g_area_format(&area, 16, 16, 4096, 8192) == 0);
	check(area.outbox == first && area.slab == first + 4096 &&
		      area.size == first + 4096 + 8192 && size == area.size,
	      "an area has no page more than its parts");
	TRUE(o2g_area_size(16, 16, 1, 1, &size) == 0 && size == first + 8192);
	check(o2g_area_size(16, 16, O2G_AREA_PART, O2G_AREA_PART, &size) == 0 &&
		      o2g_area_size(16, 16, O2G_AREA_PART + 1, 0, &size) ==
			      -LINUX_EINVAL &&
		      o2g_area_size(16, 16, 0, O2G_AREA_PART + 1, &size) ==
			      -LINUX_EINVAL,
	      "a part of the area is as large as its limit at most");
}

/* Gathered twice, it may still go out once only. */
static void test_gathered(void)
{
	struct o2g_piece piece[4];
	const u64 all = O2G_FRAME_SIZE + 100;

	pair_open(&p, &pair_plain, 0x10000);
	bed_send(&p.bed[0], 1, 1, body, 100, 1);
	TRUE(o2g_tx_gather(p.end[0].conn, piece, 4) == 2);
	TRUE(o2g_tx_gather(p.end[0].conn, piece, 4) == 2 &&
	     piece[0].length + piece[1].length == all);
	check(o2g_tx_done(p.end[0].conn, all + 1) == -LINUX_EPROTO,
	      "no more goes out than was gathered");
	TRUE(o2g_tx_done(p.end[0].conn, all) == 0 && pair_took(&p, 0, 1, 0));
	check(o2g_tx_done(p.end[0].conn, 1) == -LINUX_EPROTO,
	      "what went out does not go out again");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Frames are planned for the room that a call gives, and no further. */
static void test_planned(void)
{
	struct o2g_piece piece[16];

	pair_open(&p, &pair_plain, 0x10000);
	for (u32 i = 0; i < 8; i++)
		bed_send(&p.bed[0], 1, 1, body, 10, i);
	check(o2g_tx_gather(p.end[0].conn, piece, 4) == 4 &&
		      p.end[0].conn->slots == 2,
	      "four pieces are of two frames");
	check(o2g_tx_gather(p.end[0].conn, piece, 16) == 16 &&
		      p.end[0].conn->slots == 8,
	      "sixteen of eight");
	bed_end(&p.end[0], -104);
	bed_end(&p.end[1], -104);
	TRUE(pair_close(&p));
}

/* Borrowed is what no one else has, the largest block first. */
static void test_borrowed(void)
{
	struct o2g_slab slab = {0}, tiny = {0};
	u64 length, first, second, third;

	pair_open(&p, &pair_plain, 0x10000);
	TRUE(!o2g_slab_make(&slab, &p.bed[0].host, 0x1000, 0x3000));
	first = o2g_slab_borrow(&slab, 256, &length);
	TRUE(first && length == 0x2000);
	second = o2g_slab_borrow(&slab, 256, &length);
	check(second && length == 0x1000 && second != first,
	      "a borrowed block is borrowed once, the largest first");
	check(!o2g_slab_borrow(&slab, 256, &length) &&
		      !o2g_slab_take(&slab, 256),
	      "and then there is none");
	check(o2g_slab_release(&slab, first) == -LINUX_ENOENT,
	      "what was not lent is not released");
	o2g_slab_lend(&slab, first);
	TRUE(!o2g_slab_release(&slab, first));
	check(!o2g_slab_borrow(&slab, 0x2001, &length),
	      "nothing that is too small is borrowed");
	third = o2g_slab_borrow(&slab, 0x2000, &length);
	check(third == first && length == 0x2000, "what came back is");
	o2g_slab_give(&slab, second);
	o2g_slab_give(&slab, third);
	o2g_slab_free(&slab);
	TRUE(!o2g_slab_make(&tiny, &p.bed[0].host, 0x1000, O2G_SLAB_UNIT));
	check(o2g_slab_borrow(&tiny, 1, &length) && length == O2G_SLAB_UNIT,
	      "the smallest block is borrowed too");
	o2g_slab_give(&tiny, 0x1000);
	o2g_slab_free(&tiny);
	TRUE(pair_close(&p));
}

/* By this number an engine sees whether a stopped connection may go on. */
static void test_changes(void)
{
	u64 before;

	pair_open(&p, &pair_plain, 0x10000);
	before = o2g_core_changes(p.bed[1].core);
	bed_recv(&p.bed[1], 0, 1, 0, body, 10, 1);
	bed_recv(&p.bed[1], 0, 1, 0, body, 10, 2);
	check(o2g_core_changes(p.bed[1].core) == before + 2,
	      "each submission that was read is a change");
	TRUE(pair_close(&p));
}

/* Whoever ends an operation need not know whether a table still has it. */
static void table_removal(void)
{
	const struct o2g_key key = {.tag = 7, .context = 1};
	const u8 secret[16] = {1};
	struct o2g_knot first = {0}, second = {0};
	struct o2g_table table = {0};

	pair_open(&p, &pair_plain, 0x10000);
	TRUE(o2g_table_make(&table, &p.bed[0].host, secret) == 0);
	o2g_table_add(&table, &first, &key);
	o2g_table_add(&table, &second, &key);
	for (int i = 0; i < 2; i++)
		o2g_table_remove(&table, &second);
	check(table.keys == 1 && o2g_table_find(&table, &key) == &first &&
		      first.next == &first && first.prev == &first,
	      "what is in no table can be removed from it again");
	for (int i = 0; i < 2; i++)
		o2g_table_remove(&table, &first);
	TRUE(table.keys == 0 && !o2g_table_find(&table, &key));
	o2g_table_free(&table);
	TRUE(pair_close(&p));
}

/* A second core on the same area, which never comes to be. */
static void test_making(void)
{
	struct bed *bed = &p.bed[0];
	struct o2g_limits limits;
	struct o2g_core *core = bed->core;
	u64 before;

	pair_open(&p, &pair_slab, 0x10000);
	before = bed->allocated;
	limits = bed->limits;
	limits.postings = 0;
	check(o2g_core_make(&core, &bed->host, &limits, bed->area) ==
			      -LINUX_EINVAL &&
		      !core && bed->allocated == before,
	      "limits that cannot be are refused");
	for (u64 n = 1; n <= 4; n++) {
		bed->fail_after = n;
		check(o2g_core_make(&core, &bed->host, &bed->limits,
				    bed->area) == -LINUX_ENOMEM &&
			      (n == 1 || !core) && bed->allocated == before,
		      "a core without memory is not made");
	}
	bed->fail_after = 0;
	TRUE(pair_close(&p));
}

void edge_run(check_fn *with)
{
	check = with;
	area_layout();
	test_gathered();
	test_planned();
	test_borrowed();
	test_changes();
	table_removal();
	test_making();
}
