/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The integer types of every contract and of all freestanding code.
 *
 * `long` is 4 bytes with mingw and 8 with gcc, and mingw's own headers cannot
 * be used with -nostdinc, so nothing here comes from a system header. 64-bit
 * types are `unsigned long long` everywhere, so that one format (%llu) and the
 * kernel's __u64 agree with them.
 */
#ifndef SKEP_TYPES_H
#define SKEP_TYPES_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;
#endif

#define SKEP_ASSERT_SIZE(type, size)                                           \
	_Static_assert(sizeof(type) == (size), #type " changed its size")

#endif
