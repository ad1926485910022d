/* SPDX-License-Identifier: MIT */
/*
 * Owners of locks by flock(2) and F_OFD_SETLK: open files, which processes
 * share. Windows tells nobody which handles are of the same open file, so each
 * has a random number, and a named event that all processes hold which have
 * the file. When the event is gone, so is the owner.
 */
#ifndef BEE_HOST_WINDOWS_LOCKOWNER_H
#define BEE_HOST_WINDOWS_LOCKOWNER_H

#include "win.h"

/* Gives the handle an owner unless it has one; callers hold bee_filelock. */
s64 lockowner_make(struct win_handle *h);
/* 1: no process has that open file any more. */
int lockowner_is_gone(u64 owner);

#endif
