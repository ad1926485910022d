/* SPDX-License-Identifier: MIT */
/*
 * Record locks that native Windows programs see as well: those on bytes that
 * are never read or written. Callers hold bee_filelock.
 */
#ifndef BEE_HOST_WINDOWS_LOCKMIRROR_H
#define BEE_HOST_WINDOWS_LOCKMIRROR_H

#include <skep/assert.h>
#include "win.h"
#include "locktable.h"

/* filelock.c: guards the locks of this process. */
extern SRWLOCK bee_filelock;

/* Like lockdep_assert_held(), but any thread may hold it. */
static inline void bee_filelock_assert(void)
{
	skep_assert(!TryAcquireSRWLockExclusive(&bee_filelock));
}

/*
 * This process's lock becomes want->type. -EAGAIN: a native program is in the
 * way, and nothing has changed. 0 also for bytes that are not mirrored.
 */
s64 lockmirror_set(struct win_handle *h, const struct lock_entry *want);
/* 1: a native program is in the way of `want`. */
int lockmirror_is_taken(struct win_handle *h, const struct lock_entry *want);

#endif
