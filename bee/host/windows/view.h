/* SPDX-License-Identifier: MIT */
/* Shared mappings: the window at the end of ARENA. */
#ifndef BEE_HOST_WINDOWS_VIEW_H
#define BEE_HOST_WINDOWS_VIEW_H

#include "win.h"

#define WIN_WINDOW_START (SKEP_MMAP_END - 0x1000000000ull) /* 64 GiB */

static inline int bee_in_window(u64 addr)
{
	return addr >= WIN_WINDOW_START && addr < SKEP_MMAP_END;
}

/* Of struct abi_host: mem_place, mem_file, mem_reach, mem_sync. */
s64 bee_view_place(const struct abi_mem_file *m);
s64 bee_view_map(const struct abi_mem_file *m);
s64 bee_view_reach(u64 addr, u64 len, u32 fault);
s64 bee_view_sync(u64 addr, u64 len);

/* mem_protect and mem_release inside the window. */
s64 bee_view_protect(u64 addr, u64 len, u32 prot);
s64 bee_view_release(u64 addr, u64 len);

/* What is mapped at addr, and where in it. 0: nothing is. */
int bee_view_word(u64 addr, struct win_file_id *id, u64 *offset);

/* fsync of this file writes what was stored through its views. */
s64 bee_view_flush(HANDLE h);
/* Sets any new size of a file. */
s64 bee_view_truncate(HANDLE h, u64 len);

/*
 * For a fork, while no other thread changes the views: their handles, and
 * what bee_view_restore reads in the child. More views than
 * that are not copied.
 */
#define WIN_VIEWS_COPIED 512
u32 bee_view_count(void);
HANDLE bee_view_handle(u32 i);
u64 bee_view_save_size(void);
void bee_view_save(u8 *to, const HANDLE *handles); /* the child's handles */
s64 bee_view_restore(const u8 *from);

/* Call these before and after a call of Windows that reads or writes `buf`. */
int bee_view_hold(const void *buf);
void bee_view_unhold(int held);

#endif
