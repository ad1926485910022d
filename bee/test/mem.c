/* SPDX-License-Identifier: MIT */
/* What bee on Linux does to memory when it is asked for what is not a guest's.
 */
#include <errno.h>
#include <sys/mman.h>

#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define PAGE SKEP_PAGE_SIZE
#define RW (PROT_READ | PROT_WRITE)

static const struct {
	u64 addr, len;
	const char *name;
} outside[] = {
	{SKEP_IMAGE_START - PAGE, PAGE, "before an image"},
	{SKEP_IMAGE_END - PAGE, 2 * PAGE, "across an image's end"},
	{SKEP_ARENA_START - PAGE, 2 * PAGE, "across the arena's start"},
	{SKEP_ARENA_END, PAGE, "behind the arena"},
	{SKEP_ARENA_START, ~(u64)PAGE + 1, "a length that wraps"},
	{SKEP_ARENA_START, 0, "a length of 0"},
	{SKEP_ARENA_START, PAGE + 8, "half a page"},
	{SKEP_ARENA_START + 8, PAGE, "a start that is not page aligned"},
};

static void check_outside(void)
{
	struct abi_mem_file file = {.handle = -1};
	u32 i;

	for (i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		u64 addr = outside[i].addr, len = outside[i].len;

		file.addr = addr;
		file.len = len;
		tap_ok(lin_mem_commit(addr, len, RW) == -EINVAL &&
			       lin_mem_protect(addr, len, RW) == -EINVAL &&
			       lin_mem_release(addr, len) == -EINVAL &&
			       lin_mem_discard(addr, len) == -EINVAL &&
			       lin_mem_file(&file) == -EINVAL,
		       "refused: %s", outside[i].name);
	}
}

static void check_inside(u64 addr, const char *name)
{
	volatile u8 *p = (u8 *)(__UINTPTR_TYPE__)addr;
	int ok;

	ok = !lin_mem_commit(addr, PAGE, RW);
	if (ok)
		*p = 7;
	ok = ok && !lin_mem_protect(addr, PAGE, PROT_READ) && *p == 7 &&
	     !lin_mem_discard(addr, PAGE) && !*p &&
	     !lin_mem_release(addr, PAGE);
	tap_ok(ok, "used: %s", name);
}

int main(void)
{
	check_outside();
	tap_ok(!lin_mem_reserve(), "both ranges are reserved");
	tap_ok(lin_mem_reserve() == -EEXIST,
	       "a reserved range is not reserved again");
	check_inside(SKEP_IMAGE_START, "an image's first page");
	check_inside(SKEP_ARENA_END - PAGE, "the arena's last page");
	tap_ok(lin_mem_commit(SKEP_ARENA_START, PAGE, RW | PROT_EXEC) ==
		       -EACCES,
	       "writable and executable memory is refused");
	return tap_done();
}
