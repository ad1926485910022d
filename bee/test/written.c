/* SPDX-License-Identifier: MIT */
/* Which pages of memory were written since the last look. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define PAGE SKEP_PAGE_SIZE
#define PAGES 64u

static u8 *memory;
static int map, fd;
static u8 look[PAGES];

static void map_pages(u32 first, u32 pages)
{
	if (mmap(memory + first * PAGE, pages * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		exit(1);
}

static void look_at(u32 protect)
{
	struct lin_written w = {fd, map, protect};

	memset(look, 9, sizeof(look));
	lin_written_look(&w, (u64)(__UINTPTR_TYPE__)memory, PAGES, look);
}

/* The first half exists. */
static int are_halves(u8 first)
{
	u32 i;

	for (i = 0; i < PAGES; i++)
		if (look[i] != (i < PAGES / 2 ? first : BEE_LOOK_NONE))
			return 0;
	return 1;
}

static void fill_half(void)
{
	map_pages(0, PAGES);
	memset(memory, 1, PAGES / 2 * PAGE);
}

/* As on each kernel. */
static void check_untold(void)
{
	fill_half();
	fd = -1;
	look_at(1);
	tap_ok(are_halves(BEE_LOOK_WRITTEN), "pages that exist may be written");
	look_at(1);
	tap_ok(are_halves(BEE_LOOK_WRITTEN), "also when they were looked at");
}

/* Changes some pages in all ways, and says whether exactly these are found. */
static int finds_changes(void)
{
	int zero = open("/dev/zero", O_RDONLY);
	u32 i, bad = 0;
	u8 want;

	memory[5 * PAGE + 100] = 2;
	if (read(zero, memory + 7 * PAGE, 10) != 10)
		exit(1);
	close(zero);
	madvise(memory + 9 * PAGE, PAGE, MADV_DONTNEED);
	map_pages(11, 2);
	memory[11 * PAGE] = 3;
	memory[40 * PAGE] = 4;
	look_at(0);
	for (i = 0; i < PAGES; i++) {
		want = i < PAGES / 2 ? BEE_LOOK_SAME : BEE_LOOK_NONE;
		if (i == 5 || i == 7 || i == 11 || i == 40)
			want = BEE_LOOK_WRITTEN;
		if (i == 9 || i == 12)
			want = BEE_LOOK_NONE;
		bad += look[i] != want;
	}
	return !bad;
}

static void check_told(void)
{
	u64 start = (u64)(__UINTPTR_TYPE__)memory;

	fill_half();
	look_at(1);
	tap_ok(are_halves(BEE_LOOK_WRITTEN), "not watched: perhaps written");
	lin_written_area(fd, start, start + PAGES * PAGE);
	look_at(0);
	tap_ok(are_halves(BEE_LOOK_WRITTEN), "not looked at: perhaps written");
	look_at(1);
	tap_ok(are_halves(BEE_LOOK_WRITTEN), "before the first look");
	look_at(0);
	tap_ok(are_halves(BEE_LOOK_SAME), "nothing since");
	tap_ok(finds_changes(), "what was written since");
	look_at(0);
	tap_ok(look[5] == BEE_LOOK_WRITTEN, "and still");
	look_at(1);
	tap_ok(look[5] == BEE_LOOK_WRITTEN && look[4] == BEE_LOOK_WRITTEN,
	       "with a part that is not watched no page is the same");
	close(fd);
	look_at(0);
	tap_ok(look[4] == BEE_LOOK_WRITTEN, "nor when it is over");
}

int main(void)
{
	map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || map < 0)
		return 1;
	check_untold();
	fd = lin_written_open();
	if (fd >= 0) /* since Linux 6.7 */
		check_told();
	return tap_done();
}
