/* SPDX-License-Identifier: MIT */
/*
 * File locks that all bees of a user share, as plain data in memory that each
 * of them maps. Pure: no call to Windows, so it is tested anywhere. The
 * mutex of filelock.c guards it.
 *
 * All work is done in a private copy. It is written to the half that is not
 * current, which is then made current by one store, so a process that is killed
 * in between leaves the table unchanged. Counts are read once and clamped, so
 * whatever another process writes there, no index leaves its array and every
 * loop ends.
 */
#ifndef BEE_HOST_WINDOWS_LOCKTABLE_H
#define BEE_HOST_WINDOWS_LOCKTABLE_H

#include "abi/include/host.h"

#define LOCKTABLE_LOCKS 4096
#define LOCKTABLE_WAITERS 256

struct lock_process {
	u64 birth; /* start time: Windows reuses ids, but no such pair */
	u32 pid;
	u32 pad;
};

struct lock_file {
	u64 index;
	u64 volume; /* 0: not known, equal to any */
};

struct lock_entry {
	struct lock_file file;
	struct lock_process process; /* that made it; of RECORD the owner */
	u64 open; /* the number of the open file that owns it; 0 for RECORD */
	u32 kind, type;
	u64 first, last;
};

struct lock_waiter {
	struct lock_entry want;
	u64 thread; /* of the process */
};

struct locktable_half {
	u32 locks, waiters;
	struct lock_entry lock[LOCKTABLE_LOCKS];
	struct lock_waiter waiter[LOCKTABLE_WAITERS];
};

struct locktable {
	u32 current; /* atomic; its lowest bit selects the half */
	struct locktable_half half[2];
};

/* Copy the table from shared memory, and back. */
void locktable_load(struct locktable_half *own, const struct locktable *t);
void locktable_store(struct locktable *t, const struct locktable_half *own);

/* Returns a lock that conflicts with `want`, or NULL. */
const struct lock_entry *locktable_conflict(const struct locktable_half *h,
					    const struct lock_entry *want);
/*
 * Changes the owner's locks on these bytes to want->type; NONE drops them.
 * Returns -ENOLCK if the table is full; the caller must not store the copy
 * then.
 */
s64 locktable_set(struct locktable_half *h, const struct lock_entry *want);
/*
 * Returns whether an owner of record locks would wait for itself, perhaps
 * through others (a deadlock).
 */
int locktable_is_ring(const struct locktable_half *h,
		      const struct lock_entry *want);

s64 locktable_wait(struct locktable_half *h, const struct lock_waiter *w);
void locktable_unwait(struct locktable_half *h, const struct lock_waiter *w);
/* Drop the record locks and waits of a process, or all locks of an open file,
 * and return the number of entries. */
u32 locktable_drop_process(struct locktable_half *h,
			   const struct lock_process *p);
u32 locktable_drop_open(struct locktable_half *h, u64 open);
/* Makes the record locks of one process those of another. Returns how many. */
u32 locktable_move_records(struct locktable_half *h,
			   const struct lock_process *from,
			   const struct lock_process *to);

int locktable_same_owner(const struct lock_entry *a,
			 const struct lock_entry *b);
int locktable_same_process(const struct lock_process *a,
			   const struct lock_process *b);
int locktable_same_file(const struct lock_file *a, const struct lock_file *b);

#endif
