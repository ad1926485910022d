/* SPDX-License-Identifier: MIT */
/* Arithmetic of IEEE 754 numbers in general registers. */
#ifndef O2G_CORE_REAL_H
#define O2G_CORE_REAL_H

#include <skep/types.h>

/* Numbers of 4 or 8 bytes, by their bits; rounded to nearest, ties to even. */
u64 o2g_real_add(u32 size, u64 a, u64 b);
u64 o2g_real_multiply(u32 size, u64 a, u64 b);
/* False if one of them is no number. */
int o2g_real_less(u32 size, u64 a, u64 b);
int o2g_real_equal(u32 size, u64 a, u64 b);
u64 o2g_real_one(u32 size);

#endif
