/* SPDX-License-Identifier: MIT */
/* Atomic accesses to this process's memory. */
#ifndef O2G_USER_ATOMIC_H
#define O2G_USER_ATOMIC_H

#include <skep/types.h>

/*
 * Replaces `count` elements at `to` as `what` says (the context of an ATOMIC).
 * `from` are the operands, then what to compare with; the earlier elements go
 * to `result`, which may be `from`, if they are fetched. Other threads, and
 * other processes that share the memory, see each element change at once.
 */
void o2g_atomic_perform(u32 what, u64 count, void *to, const void *from,
			void *result);

#endif
