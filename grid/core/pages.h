/* SPDX-License-Identifier: MIT */
/* Memory for arguments of many megabytes. The includer defines _GNU_SOURCE. */
#ifndef GRID_CORE_PAGES_H
#define GRID_CORE_PAGES_H

#include <sys/mman.h>

#include <skep/types.h>

#define GRID_PAGES_LARGE 0x400000ull /* bytes; less is not worth a call */

/*
 * Asks the system for large pages in memory that all will be written: there are
 * 512 times fewer faults then. It need not have any.
 */
static inline void grid_pages_advise(void *at, u64 len)
{
	const u64 page = 0x1000, first = ((u64)at + page - 1) & ~(page - 1);

	if (len >= GRID_PAGES_LARGE)
		madvise((void *)first, (u64)at + len - first, MADV_HUGEPAGE);
}

#endif
