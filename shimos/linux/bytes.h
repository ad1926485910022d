/* SPDX-License-Identifier: MIT */
/* Little-endian numbers at any address. */
#ifndef SHIMOS_LINUX_BYTES_H
#define SHIMOS_LINUX_BYTES_H

#include <skep/types.h>

static inline u64 shimos_bytes_get(const void *from, u32 bytes)
{
	const u8 *at = from;
	u64 n = 0;
	u32 i;

	for (i = 0; i < bytes; i++)
		n |= (u64)at[i] << (8 * i);
	return n;
}

static inline void shimos_bytes_put(void *to, u64 n, u32 bytes)
{
	u8 *at = to;
	u32 i;

	for (i = 0; i < bytes; i++)
		at[i] = (u8)(n >> (8 * i));
}

static inline void shimos_bytes_copy(void *to, const void *from, u64 bytes)
{
	u8 *a = to;
	const u8 *b = from;
	u64 i;

	for (i = 0; i < bytes; i++)
		a[i] = b[i];
}

#endif
