/* SPDX-License-Identifier: MIT */
/* What an atomic access does to one element; elements are numbers. */
#ifndef O2G_CORE_ATOMIC_H
#define O2G_CORE_ATOMIC_H

#include <skep/o2g_wire.h>

/* `what` is the field `context` of an ATOMIC frame. */
static inline u32 o2g_atomic_operation(u32 what)
{
	return what & 0xff;
}

static inline u32 o2g_atomic_type(u32 what)
{
	return what >> 8 & 0xff;
}

static inline int o2g_atomic_compares(u32 what)
{
	return o2g_atomic_operation(what) >= O2G_ATOMIC_CSWAP;
}

/* Whether the operation changes elements, and so has operands; whether it
 * returns elements. */
static inline int o2g_atomic_writes(u32 what)
{
	return o2g_atomic_operation(what) != O2G_ATOMIC_READ;
}

static inline int o2g_atomic_fetches(u32 what)
{
	return what & O2G_ATOMIC_FETCH || o2g_atomic_compares(what) ||
	       !o2g_atomic_writes(what);
}

/* Bytes of an element: 1, 2, 4 or 8. */
static inline u32 o2g_atomic_size(u32 what)
{
	const u32 type = o2g_atomic_type(what);

	return type >= O2G_ATOMIC_F32 ? 4u << (type - O2G_ATOMIC_F32)
				      : 1u << (type - 1) / 2;
}

/* The length of the body of an ATOMIC for `length` bytes of elements. */
static inline u64 o2g_atomic_body(u32 what, u64 length)
{
	if (o2g_atomic_compares(what))
		return 2 * length;
	return o2g_atomic_writes(what) ? length : 0;
}

/* The bytes that the target stores: the body, or if there is none the result. A
 * result replaces the body. */
static inline u64 o2g_atomic_stored(u32 what, u64 length)
{
	const u64 body = o2g_atomic_body(what, length);

	return body ? body : length;
}

/* Whether this operation exists for elements of this type, and for so many
 * bytes of them at a time. */
int o2g_atomic_valid(u32 what, u64 length);

/* The element that replaces `old`. Elements are in the low bytes of a number;
 * the other bytes of the result are zero. */
u64 o2g_atomic_next(u32 what, u64 old, u64 operand, u64 compare);

#endif
