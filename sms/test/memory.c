// SPDX-License-Identifier: MIT
/*
 * The program's memory against a plain model: what is done to 8 MiB of
 * addresses, with a pool that is smaller than that. After each step every
 * entry, every frame and every count must be as the model has it; and when
 * cores are made to forget, no frame that was seen may be free yet.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sms/kernel/kernel.h"
#include "sms/test/play.h"

#define START SKEP_MMAP_START
#define LARGES 4u
#define PAGES (LARGES * 512u)
#define POOL_LARGES 3u
#define POOL_PAGES (POOL_LARGES * 512u)
#define TABLE 0x1000ull /* instead of the address of a table */
#define NO_FRAME (~0u)

static struct core core;
static struct mail_ledger ledger;
static struct {
	struct skep_partition head;
	struct skep_partition_range range[2];
	u64 touched[1];
} partition;
struct skep_partition *sms_partition = &partition.head;

/* The page tables: of 2 MiB, and of 4 KiB where the first says so. */
static u64 large[LARGES], small[PAGES];
static u8 lists[2 << 20] __attribute__((aligned(PAGE)));

/* What the program may do with each page, as the calls had it; and the frame
 * that the last step showed there. */
static struct {
	u32 committed, prot, frame;
} model[PAGES];
static u32 flushes, cleared_pages, fail_tables;
static void (*meanwhile)(void); /* while a frame is cleared */
static u8 cleared[POOL_PAGES];	/* since it was free */

struct core *sms_core_at(u32 number)
{
	must(!number);
	return &core;
}

void sms_spin_lock(struct spin *s)
{
	must(!s->word);
	s->word = 1;
}

void sms_spin_unlock(struct spin *s)
{
	must(s->word);
	s->word = 0;
}

void *sms_page_reserve(u64 bytes)
{
	static u64 used;

	bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
	used += bytes;
	must(used <= sizeof(lists));
	return lists + used - bytes;
}

u64 sms_page_frames(u64 bytes)
{
	return (u64)sms_page_reserve(bytes);
}

u64 *sms_page_entry(u64 addr, u32 level, int make)
{
	u64 page = (addr - START) / PAGE;

	must(level <= 1);
	if (addr >= SKEP_IMAGE_START && addr <= SKEP_IMAGE_END && !make)
		return 0; /* nothing was touched there */
	must(addr >= START && page < PAGES);
	if (level)
		return &large[page / 512];
	if (!large[page / 512] && make) {
		if (fail_tables)
			return 0;
		large[page / 512] = TABLE;
	}
	if (!large[page / 512] || large[page / 512] & SMS_PAGE_LARGE)
		return 0;
	return &small[page];
}

int sms_page_split(u64 *entry)
{
	u64 i, at = (u64)(entry - large) * 512, flags;

	if (fail_tables)
		return -LINUX_ENOMEM;
	flags = *entry & ~(SMS_PAGE_FRAME | SMS_PAGE_LARGE);
	for (i = 0; i < 512; i++)
		small[at + i] = ((*entry & SMS_PAGE_FRAME) + i * PAGE) | flags;
	*entry = TABLE;
	return 0;
}

void sms_cpu_forget(u64 addr)
{
	must(addr >= START);
}

/* Zeroing, of a frame that no core maps yet: memory.c asks for it by
 * address. */
void *abi_memset(void *to, int c, __SIZE_TYPE__ n)
{
	u64 at = (u64)to - AT_POOL;

	if ((u64)to < AT_POOL)
		return memset(to, c, n);
	must(!c && at < POOL_LARGES * LARGE && n <= POOL_LARGES * LARGE - at);
	must(!(at % n) && (n == PAGE || n == LARGE));
	memset(cleared + at / PAGE, 1, n / PAGE);
	cleared_pages += n / PAGE;
	if (meanwhile)
		meanwhile();
	return to;
}

void *abi_memmove(void *to, const void *from, __SIZE_TYPE__ n)
{
	return memmove(to, from, n);
}

/* The entry of a page with its frame, or 0. */
static u64 entry_of(u32 page)
{
	u64 e = large[page / 512];

	if (e & SMS_PAGE_LARGE)
		return e + page % 512 * PAGE;
	return e ? small[page] : 0;
}

static u32 frame_of(u64 entry)
{
	return entry ? (u32)(sms_pool_offset(entry & SMS_PAGE_FRAME) / PAGE)
		     : NO_FRAME;
}

/* Every core forgets here: what any of them saw before is still not free,
 * and nobody sees it through what is hidden now. */
void sms_thread_flush(void)
{
	u32 i, held = 0;

	flushes++;
	for (i = 0; i < PAGES; i++) {
		must(model[i].frame == NO_FRAME ||
		     frame_of(entry_of(i)) == model[i].frame);
		held += model[i].frame != NO_FRAME;
	}
	must(sms_pool_free_bytes() == (POOL_PAGES - held) * PAGE);
}

static void reset_space(void)
{
	static int once;
	u32 i;

	if (!once) {
		partition.head.cores = 1;
		partition.head.ranges = 2;
		partition.head.range_table =
			(u64)partition.range - (u64)&partition;
		partition.head.used_pool =
			(u64)partition.touched - (u64)&partition;
		partition.range[0].start = 0x8000000;
		partition.range[0].length = 2 * LARGE;
		partition.range[1].start = 0x40000000;
		partition.range[1].length = LARGE;
		partition.range[1].offset = 2 * LARGE;
		core.self = &core;
		core.ledger = &ledger;
		must(!syscall(SYS_arch_prctl, ARCH_SET_GS, &core));
		must(!sms_pool_begin(sms_partition) && !sms_memory_begin());
		once = 1;
	}
	fail_tables = 0;
	must(!sms_memory_release(START, PAGES * PAGE));
	must(sms_pool_free_bytes() == sms_pool_bytes());
	memset(large, 0, sizeof(large));
	memset(small, 0, sizeof(small));
	memset(cleared, 0, sizeof(cleared));
	for (i = 0; i < PAGES; i++) {
		model[i].committed = 0;
		model[i].frame = NO_FRAME;
	}
}

static void check_rights(u64 entry, u32 prot)
{
	must(!(entry & SMS_PAGE_PRESENT) == !prot);
	must(!(entry & SMS_PAGE_WRITE) == !(prot & ABI_PROT_WRITE));
	must(!(entry & SMS_PAGE_NX) == !!(prot & ABI_PROT_EXEC));
	must(entry & SMS_PAGE_USER && (prot || entry & SMS_PAGE_KEPT));
}

/* After a step: entries, frames and counts; then the model knows the frames. */
static void check_space(void)
{
	static u8 used[POOL_PAGES];
	u32 i, held = 0, frame;
	u64 entry;

	memset(used, 0, sizeof(used));
	for (i = 0; i < PAGES; i++) {
		entry = entry_of(i);
		frame = frame_of(entry);
		if (entry) {
			must(model[i].committed);
			check_rights(entry, model[i].prot);
			must(frame < POOL_PAGES && !used[frame]);
			must(cleared[frame]);
			used[frame] = 1;
			held++;
		}
		model[i].frame = frame;
	}
	must(sms_pool_free_bytes() == (POOL_PAGES - held) * PAGE);
	for (i = 0; i < POOL_PAGES; i++)
		if (!used[i])
			cleared[i] = 0;
}

/* As the processor has them: what may be used at all may be read. */
static u32 rights_of(u32 prot)
{
	return prot ? prot | ABI_PROT_READ : 0;
}

/* Were there rights that a core may have seen, and does not have now? */
static int takes_rights(u32 first, u32 count, u32 prot, int drops)
{
	u32 i;

	for (i = first; i < first + count; i++)
		if (entry_of(i) & SMS_PAGE_PRESENT &&
		    (drops || rights_of(model[i].prot) & ~rights_of(prot)))
			return 1;
	return 0;
}

enum { COMMIT, PROTECT, RELEASE, DISCARD, TOUCH, STEPS };

static s64 apply_step(u32 what, u32 first, u32 count, u32 prot)
{
	u64 addr = START + first * PAGE, len = count * PAGE;

	switch (what) {
	case COMMIT:
		return sms_memory_commit(addr, len, prot);
	case PROTECT:
		return sms_memory_protect(addr, len, prot);
	case RELEASE:
		return sms_memory_release(addr, len);
	default:
		return sms_memory_discard(addr, len);
	}
}

/* Pages of 2 MiB that were divided: both sizes must not be seen. */
static int large_divided(const u64 before[LARGES])
{
	u32 i;

	for (i = 0; i < LARGES; i++)
		if (before[i] & SMS_PAGE_LARGE && large[i] == TABLE)
			return 1;
	return 0;
}

static void run_step(u32 what, u32 first, u32 count, u32 prot)
{
	u32 before = flushes, i;
	int less = takes_rights(first, count, prot, what != PROTECT);
	int few = sms_pool_free_bytes() < LARGE &&
		  sms_pool_free_bytes() < count * PAGE;
	u64 mapped[LARGES];
	s64 err;

	memcpy(mapped, large, sizeof(mapped));
	err = apply_step(what, first, count, prot);
	must(!err || (err == -LINUX_ENOMEM &&
		      (fail_tables || (what == COMMIT && few))));
	must(!less || flushes > before || err);
	must(!large_divided(mapped) || flushes > before);
	for (i = first; i < first + count && !err; i++) {
		/* abi protects only what it committed, so that is the same. */
		if (what == COMMIT || what == PROTECT)
			model[i].committed = 1;
		if (what == RELEASE)
			model[i].committed = 0;
		if (what == COMMIT || what == PROTECT)
			model[i].prot = prot;
		if (what != PROTECT)
			must(!entry_of(i));
	}
}

static void touch_page(u32 page, u32 prot)
{
	int had = !!entry_of(page), got;
	int may = model[page].committed && model[page].prot &&
		  !(prot & ~model[page].prot);
	u64 length;

	got = sms_memory_touch(START + page * PAGE, prot);
	if (!may) {
		must(!got && had == !!entry_of(page));
		return;
	}
	must(got == 1 || (got == -LINUX_ENOMEM && !had &&
			  (fail_tables || !sms_pool_free_bytes())));
	if (got == 1) {
		must(sms_memory_offset(START + page * PAGE + 5, prot,
				       &length) ==
		     frame_of(entry_of(page)) * PAGE + 5);
		must(length && length < LARGE);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct bytes b = {data, size};
	u32 what, count, prot, n = 0;
	u16 first;

	reset_space();
	while (b.left > 4 && n++ < 300) {
		what = take_one(&b);
		prot = what >> 4 & 7;
		fail_tables = what >> 7;
		first = 0;
		take_bytes(&b, &first, 2);
		/* Borders of 2 MiB more often than others. */
		first = first & 0x8000 ? first % LARGES * 512 : first % PAGES;
		count = take_one(&b);
		count = count & 0x80 ? count % 5 * 512 : count;
		if (count > PAGES - first)
			count = PAGES - first;
		if ((what & 15) % STEPS == TOUCH)
			touch_page(first, prot);
		else if ((what & 15) % STEPS != PROTECT || count)
			run_step((what & 15) % STEPS, first, count ? count : 1,
				 prot);
		check_space();
	}
	return 0;
}

#ifndef SMS_FUZZ
#include "tests/tap.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)

static void test_large_page(void)
{
	reset_space();
	run_step(COMMIT, 0, 1024, RW);
	touch_page(700, ABI_PROT_WRITE);
	check_space();
	tap_ok(large[1] & SMS_PAGE_LARGE && !large[0],
	       "large: the first touch populates 2 MiB");
	run_step(PROTECT, 600, 1, ABI_PROT_READ);
	check_space();
	tap_ok(large[1] == TABLE && flushes, "large: 2 MiB are split for one "
					     "page, and cores flush their TLB");
	run_step(RELEASE, 513, 511, 0);
	check_space();
	tap_ok(sms_pool_free_bytes() == (POOL_PAGES - 1) * PAGE,
	       "large: all but one page of them are freed");
}

static void used_up(void)
{
	u32 i, got = 0;

	reset_space();
	run_step(COMMIT, 0, PAGES, RW);
	for (i = 0; i < PAGES; i++)
		got += sms_memory_touch(START + i * PAGE, RW) == 1;
	check_space();
	tap_ok(got == POOL_PAGES && !sms_pool_free_bytes(),
	       "used up: every page of the pool, and no more");
	run_step(DISCARD, 3, 1, 0);
	tap_ok(sms_memory_touch(START + (PAGES - 1) * PAGE, RW) == 1,
	       "used up: a freed page can be used");
	check_space();
	tap_ok(sms_memory_touch(START + 3 * PAGE, RW) == -LINUX_ENOMEM,
	       "used up: no second page can be used");
	tap_ok(sms_memory_commit(START, PAGE, RW) == -LINUX_ENOMEM &&
		       entry_of(0),
	       "used up: no further page is committed, and none is lost");
	reset_space();
	run_step(COMMIT, 0, PAGES, RW);
	tap_ok(PAGES > POOL_PAGES &&
		       sms_memory_populate(START, 512 * PAGE) == 0 &&
		       entry_of(0) && entry_of(511) && !entry_of(512) &&
		       sms_memory_populate(START, PAGES * PAGE) ==
			       -LINUX_ENOMEM &&
		       !sms_pool_free_bytes(),
	       "used up: a commitment above the pool is populated as far as it "
	       "lasts");
	check_space();
	reset_space();
	run_step(COMMIT, 0, 1, RW);
	fail_tables = 1;
	tap_ok(sms_memory_touch(START, RW) == -LINUX_ENOMEM &&
		       sms_pool_free_bytes() == sms_pool_bytes(),
	       "used up: no page table, and the frame is free again");
}

/* Without a table for the second end, nothing happens at the first. */
static void no_tables(void)
{
	u64 entry;

	reset_space();
	run_step(COMMIT, 0, 1024, RW);
	touch_page(0, RW);
	touch_page(600, RW);
	check_space();
	entry = large[0];
	fail_tables = 1;
	tap_ok(sms_memory_release(START, 513 * PAGE) == -LINUX_ENOMEM &&
		       large[0] == entry && large[1] & SMS_PAGE_LARGE,
	       "no tables: a change that cannot be completed is not begun");
	check_space();
}

/* While a frame is cleared for it, 2 MiB at 1, another core.. */
static void cut_before(void)
{
	meanwhile = 0;
	run_step(RELEASE, 512, 1, 0);
}

static void cut_behind(void)
{
	meanwhile = 0;
	run_step(RELEASE, 1023, 1, 0);
}

static void cut_all(void)
{
	meanwhile = 0;
	run_step(RELEASE, 512, 512, 0);
}

static void touch_first(void)
{
	meanwhile = 0;
	touch_page(700, ABI_PROT_WRITE);
}

static void change_meanwhile(void)
{
	static const struct {
		void (*act)(void);
		u32 got, pages;
		const char *name;
	} c[] = {
		{cut_before, 1, 1, "releases a page before it"},
		{cut_behind, 1, 1, "releases a page behind it"},
		{cut_all, 0, 0, "releases all"},
		{touch_first, 1, 512, "was first"},
	};
	u32 i, got;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		reset_space();
		run_step(COMMIT, 0, PAGES, RW);
		meanwhile = c[i].act;
		got = sms_memory_touch(START + 700 * PAGE, RW) == 1;
		tap_ok(!meanwhile && got == c[i].got &&
			       sms_pool_free_bytes() ==
				       (POOL_PAGES - c[i].pages) * PAGE,
		       "concurrent: while 2 MiB are cleared another core %s",
		       c[i].name);
		check_space();
	}
}

/* Pages that came one by one are as good as those that came at once. */
static void test_neighbours(void)
{
	static const char *const name[] = {"upwards", "downwards"};
	u32 down, i;

	for (down = 0; down < 2; down++) {
		reset_space();
		for (i = 0; i < 512; i++)
			run_step(COMMIT, down ? 511 - i : i, 1, RW);
		touch_page(5, RW);
		check_space();
		tap_ok(large[0] & SMS_PAGE_LARGE,
		       "neighbours: 512 pages, committed one by one %s, are "
		       "touched at once",
		       name[down]);
	}
	reset_space();
	run_step(COMMIT, 0, 511, RW);
	run_step(COMMIT, 511, 1, ABI_PROT_READ);
	run_step(COMMIT, 513, 511, RW);
	touch_page(5, RW);
	touch_page(600, RW);
	check_space();
	tap_ok(large[0] == TABLE && large[1] == TABLE,
	       "neighbours: other rights, or a gap, keep them apart");
	for (i = 0; i < 40000; i++) {
		must(!sms_memory_protect(START + PAGE, PAGE, ABI_PROT_READ));
		must(!sms_memory_protect(START + PAGE, PAGE, RW));
	}
	check_space();
	tap_ok(1, "neighbours: changing rights back and forth uses up no list");
}

/* Another pool: more blocks than one word of one word has. */
#define MANY (64 * 64 + 100u)

static void large_pool(void)
{
	static struct {
		struct skep_partition head;
		struct skep_partition_range range;
		u64 touched[(MANY + 63) / 64];
	} p;
	static u8 given[MANY];
	static u64 page[MANY];
	u64 offset;
	u32 i, n;

	p.head.ranges = 1;
	p.head.range_table = (u64)&p.range - (u64)&p;
	p.head.used_pool = (u64)p.touched - (u64)&p;
	p.range.length = MANY * LARGE;
	must(!sms_pool_begin(&p.head));
	sms_spin_lock(&sms_memory_lock);
	for (n = 0; (offset = sms_pool_take(1)) != ~0ull; n++) {
		must(offset % LARGE == 0 && offset / LARGE < MANY);
		must(!given[offset / LARGE]++);
		must(p.touched[offset / LARGE / 64] >> offset / LARGE % 64 & 1);
	}
	tap_ok(n == MANY && !sms_pool_free_bytes(),
	       "large pool: each of %u blocks is allocated once", MANY);
	for (i = 0; i < MANY; i += 3)
		sms_pool_give(i * LARGE, 1);
	for (n = 0; n < MANY; n++) {
		page[n] = sms_pool_take(0);
		must(page[n] / LARGE < MANY && page[n] / LARGE % 3 == 0);
	}
	tap_ok(1, "large pool: freed blocks are allocated as pages");
	for (n = 0; n < MANY; n++)
		sms_pool_give(page[n], 0);
	for (i = 0; i < MANY; i++)
		if (i % 3)
			sms_pool_give(i * LARGE, 1);
	tap_ok(sms_pool_free_bytes() == MANY * LARGE &&
		       sms_pool_take(1) != ~0ull,
	       "large pool: all of it is free again");
	sms_pool_give(0, 1);
	sms_spin_unlock(&sms_memory_lock);
}

static void test_refused(void)
{
	reset_space();
	tap_ok(sms_memory_commit(START, 0, RW) == -LINUX_EINVAL &&
		       sms_memory_commit(START + 1, PAGE, RW) ==
			       -LINUX_EINVAL &&
		       sms_memory_commit(START, ~0xfffull, RW) ==
			       -LINUX_EINVAL &&
		       sms_memory_release(AT_POOL, PAGE) == -LINUX_EINVAL &&
		       sms_memory_protect(SKEP_ARENA_END, PAGE, RW) ==
			       -LINUX_EINVAL,
	       "refused: memory that is not the program's");
	tap_ok(!sms_memory_commit(SKEP_IMAGE_START, PAGE, RW) &&
		       !sms_memory_commit(SKEP_IMAGE_END - PAGE, PAGE, RW) &&
		       sms_memory_commit(SKEP_IMAGE_START - PAGE, PAGE, RW) ==
			       -LINUX_EINVAL &&
		       sms_memory_commit(SKEP_IMAGE_END, PAGE, RW) ==
			       -LINUX_EINVAL &&
		       !sms_memory_release(SKEP_IMAGE_START,
					   SKEP_IMAGE_END - SKEP_IMAGE_START),
	       "refused: no mapping between both ends of a program's image");
	run_step(COMMIT, 0, 2, 0);
	tap_ok(!sms_memory_touch(START, ABI_PROT_READ) && !entry_of(0),
	       "refused: a touch of memory without read permission");
	run_step(COMMIT, 0, 2, RW);
	touch_page(0, ABI_PROT_WRITE);
	check_space();
	flushes = 0;
	run_step(PROTECT, 0, 1, 0);
	tap_ok(flushes == 1 && entry_of(0) == (entry_of(0) & ~1ull),
	       "refused: a page whose rights are gone keeps its frame");
	run_step(PROTECT, 0, 1, RW);
	tap_ok(flushes == 1, "refused: adding rights needs no TLB flush");
	check_space();
}

int main(void)
{
	large_pool();
	test_large_page();
	used_up();
	no_tables();
	change_meanwhile();
	test_neighbours();
	test_refused();
	tap_ok(play_random(100), "random: 100 times 300 steps");
	return tap_done();
}
#endif
