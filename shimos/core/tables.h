/* SPDX-License-Identifier: MIT */
/*
 * Four-level page tables in consecutive pages, with which a core starts. `at`
 * is their address for the caller, `start` their address for the core, below 4
 * GiB.
 */
#ifndef SHIMOS_TABLES_H
#define SHIMOS_TABLES_H

#include <skep/types.h>

struct shimos_tables {
	u64 (*at)[512];
	u64 start;
	u32 pages, used;
};

/* The pages must be zero. The first page becomes the root table. */
void shimos_tables_begin(struct shimos_tables *t, void *at, u64 start,
			 u32 pages);
/* Maps one page, of 4 KiB or if `large` of 2 MiB, writable and executable. 0 or
 * -ENOSPC. */
int shimos_tables_map(struct shimos_tables *t, u64 address, u64 physical,
		      int large);

#endif
