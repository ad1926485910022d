/* SPDX-License-Identifier: MIT */
/* Pages: arithmetic, content, and where the guest may have some. */
#ifndef ABI_INCLUDE_PAGE_H
#define ABI_INCLUDE_PAGE_H

#include <skep/types.h>
#include <skep/guest.h>

#define ABI_PAGE_MASK ((u64)SKEP_PAGE_SIZE - 1)
#define ABI_PAGE_DOWN(x) ((x) & ~ABI_PAGE_MASK)
#define ABI_PAGE_UP(x) ABI_PAGE_DOWN((x) + ABI_PAGE_MASK) /* may wrap to 0 */

/* `page` is aligned. */
static inline int abi_page_is_zero(const void *page)
{
	const u64 *word = (const u64 *)page, *end = word + SKEP_PAGE_SIZE / 8;

	while (word < end && !*word)
		word++;
	return word == end;
}

/* Whether [start, end) is inside one of the two guest ranges. */
static inline int abi_space_range(u64 start, u64 end)
{
	return start <= end &&
	       ((start >= SKEP_IMAGE_START && end <= SKEP_IMAGE_END) ||
		(start >= SKEP_ARENA_START && end <= SKEP_ARENA_END));
}

#endif
