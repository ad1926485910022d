/* SPDX-License-Identifier: MIT */
/* The texts of files that abi provides itself below /proc and /sys. */
#ifndef ABI_FS_PROCTEXT_H
#define ABI_FS_PROCTEXT_H

#include <skep/types.h>

struct abi_proc;
struct abi_text;
struct abi_thread;

enum abi_text_code {
	ABI_TEXT_MAPS,
	ABI_TEXT_STATUS,
	ABI_TEXT_STAT_SELF,
	ABI_TEXT_CMDLINE,
	ABI_TEXT_COMM,
	ABI_TEXT_DIR_FD,
	ABI_TEXT_DIR_TASK, /* the last one below /proc/self */
	ABI_TEXT_CPUINFO,
	ABI_TEXT_MEMINFO,
	ABI_TEXT_STAT,
	ABI_TEXT_UPTIME,
	ABI_TEXT_LOADAVG,
	ABI_TEXT_OVERCOMMIT,
	ABI_TEXT_OSTYPE,
	ABI_TEXT_OSRELEASE,
	ABI_TEXT_HOSTNAME,
	ABI_TEXT_NGROUPS,
	ABI_TEXT_SOMAXCONN,
	ABI_TEXT_PID_MAX,
	ABI_TEXT_PIPE_MAX,
	ABI_TEXT_MAX_MAP_COUNT,
	ABI_TEXT_CPUS,
	ABI_TEXT_OF_NUMBER, /* a directory of numbers */
	ABI_TEXT_ZERO,
};

#define ABI_TEXT_NUMBER 16 /* above abi_text_code in a description's code */

/* code: as in a description. thread: the one that the file is about, or 0:
 * the process. */
void abi_proctext_write(struct abi_proc *p, u32 code,
			const struct abi_thread *thread, struct abi_text *t);

#endif
