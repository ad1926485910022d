/* SPDX-License-Identifier: MIT */
/*
 * Record locks that native Windows programs see too. They are on bytes that are
 * never read or written. Callers hold bee_filelock.
 */
#ifndef BEE_HOST_WINDOWS_LOCKMIRROR_H
#define BEE_HOST_WINDOWS_LOCKMIRROR_H

#include <skep/assert.h>
#include "win.h"
#include "locktable.h"

/* Guards the locks of this process; filelock.c defines it. */
extern SRWLOCK bee_filelock;

/*
 * Like lockdep_assert_held(), but it does not check which thread holds the
 * lock.
 */
static inline void bee_filelock_assert(void)
{
	skep_assert(!TryAcquireSRWLockExclusive(&bee_filelock));
}

/*
 * Changes this process's lock to want->type. Returns -EAGAIN, without a change,
 * if a native program holds a conflicting lock. Returns 0 also for bytes that
 * are not mirrored.
 */
s64 lockmirror_set(struct win_handle *h, const struct lock_entry *want);
/* Returns 1 if a native program holds a lock that conflicts with `want`. */
int lockmirror_is_taken(struct win_handle *h, const struct lock_entry *want);

#define LOCKMIRROR_FILES 128
#define LOCKMIRROR_RANGES 24

struct lockmirror_range {
	u64 first, last;
	u32 type;
};

/* The locks of one file, for the process that takes this one's place. */
struct lockmirror_saved {
	s32 number; /* of an open handle of the file */
	u32 count;
	struct lockmirror_range range[LOCKMIRROR_RANGES];
};

/* 1: `h`, whose file is known, has locks that it stored in `to`. */
int lockmirror_save(const struct win_handle *h, struct lockmirror_saved *to);
/*
 * Locks again what the process before this one had locked, which has ended. h:
 * of the number, and its file is known.
 */
void lockmirror_restore(struct win_handle *h,
			const struct lockmirror_saved *from);

#endif
