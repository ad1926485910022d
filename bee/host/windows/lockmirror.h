/* SPDX-License-Identifier: MIT */
/*
 * Record locks that native Windows programs see as well: those on bytes that
 * are never read or written. The caller serialises all calls.
 */
#ifndef BEE_HOST_WINDOWS_LOCKMIRROR_H
#define BEE_HOST_WINDOWS_LOCKMIRROR_H

#include "win.h"
#include "locktable.h"

/*
 * This process's lock becomes want->type. -EAGAIN: a native program is in the
 * way, and nothing has changed. 0 also for bytes that are not mirrored.
 */
s64 lockmirror_set(struct win_handle *h, const struct lock_entry *want);
/* 1: a native program is in the way of `want`. */
int lockmirror_is_taken(struct win_handle *h, const struct lock_entry *want);

#endif
