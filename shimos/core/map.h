/* SPDX-License-Identifier: MIT */
/* Sets of CPUs as in the contract: CPU n is bit n % 64 of word n / 64. */
#ifndef SHIMOS_MAP_H
#define SHIMOS_MAP_H

#include <skep/types.h>

static inline int shimos_map_has(const u64 *map, u32 cpu)
{
	return map[cpu / 64] >> cpu % 64 & 1;
}

static inline void shimos_map_set(u64 *map, u32 cpu)
{
	map[cpu / 64] |= 1ull << cpu % 64;
}

#endif
