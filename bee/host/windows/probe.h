/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the files of bee --probe share.
 */
#ifndef BEE_HOST_WINDOWS_PROBE_H
#define BEE_HOST_WINDOWS_PROBE_H

#include "win.h"

/* Prints one line: name, state, and what was observed. */
enum probe_state { PROBE_OK, PROBE_ACCEPTED, PROBE_ABSENT, PROBE_BAD };
__attribute__((format(gnu_printf, 3, 4))) void
bee_probe_line(const char *name, enum probe_state state, const char *format,
	       ...);

void bee_probe_cpu(void);    /* probe_cpu.c */
void bee_probe_files(void);  /* probe_file.c */
void bee_probe_policy(void); /* probe_policy.c; limits this process: last */

/* probe_trap.S: ud2 with rsp = top; the address of that instruction; FS. */
void bee_probe_trap(void *top);
extern const u8 bee_probe_trap_at[];
u64 bee_probe_fs(void);
extern const u8 bee_probe_fs_at[];

#endif
