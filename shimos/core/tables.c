// SPDX-License-Identifier: MIT
#include "tables.h"
#include <skep/assert.h>
#include "base/errno.h"

#define PRESENT 1
#define WRITE 2
#define LARGE 0x80

void shimos_tables_begin(struct shimos_tables *t, void *at, u64 start,
			 u32 pages)
{
	t->at = at;
	t->start = start;
	t->pages = pages;
	t->used = 1;
}

int shimos_tables_map(struct shimos_tables *t, u64 address, u64 physical,
		      int large)
{
	u32 last = large ? 21 : 12, shift;
	u64 *table = t->at[0], *entry;

	for (shift = 39;; shift -= 9) {
		entry = &table[address >> shift & 511];
		if (shift == last)
			break;
		if (!*entry) {
			if (t->used == t->pages)
				return -LINUX_ENOSPC;
			*entry = (t->start + t->used++ * 4096ull) | PRESENT |
				 WRITE;
		}
		skep_assert((*entry - t->start) / 4096 < t->used);
		table = t->at[(*entry - t->start) / 4096];
	}
	*entry = physical | PRESENT | WRITE | (large ? LARGE : 0);
	return 0;
}
