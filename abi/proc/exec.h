/* SPDX-License-Identifier: MIT */
/*
 * The state that a process keeps across execve: sys_exec.c writes it to a file
 * of the host and resume.c reads it. Both are from the same build of abi.
 */
#ifndef ABI_PROC_EXEC_H
#define ABI_PROC_EXEC_H

#include "abi/include/exec.h"
#include "abi/include/snapshot.h"
#include "abi/state/proc.h"

struct abi_exec_state {
	struct abi_exec_head head;
	u64 blocked, ignored; /* signals */
	struct abi_alarm itimer[ABI_ITIMERS];
	struct abi_rlimit limit[ABI_RLIMITS];
	u32 umask, death_signal;
	s32 nice;
	u32 locked_files; /* with record locks that stay */
	struct abi_file_id locked_file[ABI_LOCKED_FILES];
	char comm[16]; /* the name that was executed, without folders */
	char cwd[ABI_PATH_MAX];
};

/* Behind the strings: abi_snap_signal for each pending signal. */

/* One for each number; those of the same description have the same `desc`. */
struct abi_exec_record {
	u32 fd, index;
	struct abi_desc desc;
};

#endif
