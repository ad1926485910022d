// SPDX-License-Identifier: MIT
/* Atomic accesses to this process's memory, without a lock. */
#include "atomic.h"

#include <o2g/core/atomic.h>

#include <string.h>

static u64 load_element(const u8 *at, u32 size)
{
	u64 value = 0;

	memcpy(&value, at, size); /* little endian */
	return value;
}

/* The element before. A failed exchange reads it again. */
#define EXCHANGE(type)                                                         \
	{                                                                      \
		type old = __atomic_load_n((type *)at, __ATOMIC_SEQ_CST);      \
                                                                               \
		while (o2g_atomic_writes(what) &&                              \
		       !__atomic_compare_exchange_n(                           \
			       (type *)at, &old,                               \
			       (type)o2g_atomic_next(what, old, operand,       \
						     compare),                 \
			       0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))         \
			;                                                      \
		return old;                                                    \
	}

static u64 exchange_element(u32 what, void *at, u64 operand, u64 compare)
{
	switch (o2g_atomic_size(what)) {
	case 1:
		EXCHANGE(u8)
	case 2:
		EXCHANGE(u16)
	case 4:
		EXCHANGE(u32)
	}
	EXCHANGE(u64)
}

void o2g_atomic_perform(u32 what, u64 count, void *to, const void *from,
			void *result)
{
	const u32 size = o2g_atomic_size(what);
	const u64 length = count * size;

	for (u64 at = 0; at < length; at += size) {
		u64 operand = 0, compare = 0, old;

		if (o2g_atomic_writes(what))
			operand = load_element((const u8 *)from + at, size);
		if (o2g_atomic_compares(what))
			compare = load_element((const u8 *)from + length + at,
					       size);
		old = exchange_element(what, (u8 *)to + at, operand, compare);
		if (o2g_atomic_fetches(what))
			memcpy((u8 *)result + at, &old, size);
	}
}
