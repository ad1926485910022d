/* SPDX-License-Identifier: MIT */
/*
 * Four-level page tables in consecutive pages, on which a core starts. `at` is
 * their address here, `start` their address for the core, below 4 GiB.
 */
#ifndef SHIMOS_TABLES_H
#define SHIMOS_TABLES_H

#include <skep/types.h>

struct shimos_tables {
	u64 (*at)[512];
	u64 start;
	u32 pages, used;
};

/* The pages are zero. The first becomes the root. */
void shimos_tables_begin(struct shimos_tables *t, void *at, u64 start,
			 u32 pages);
/* One page, 4 KiB or (large) 2 MiB, writable and executable. 0 or -ENOSPC. */
int shimos_tables_map(struct shimos_tables *t, u64 address, u64 physical,
		      int large);

#endif
