/* SPDX-License-Identifier: MIT */
/* Page arithmetic. */
#ifndef ABI_INCLUDE_PAGE_H
#define ABI_INCLUDE_PAGE_H

#include <skep/types.h>
#include <skep/guest.h>

#define ABI_PAGE_MASK ((u64)SKEP_PAGE_SIZE - 1)
#define ABI_PAGE_DOWN(x) ((x) & ~ABI_PAGE_MASK)
#define ABI_PAGE_UP(x) ABI_PAGE_DOWN((x) + ABI_PAGE_MASK) /* may wrap to 0 */

#endif
