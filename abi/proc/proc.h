/* SPDX-License-Identifier: MIT */
/*
 * The process: everything abi knows about one guest, as plain data. A part is
 * guarded by the lock inside it; what stands here directly is written by
 * abi_proc_init and abi_exec before a second thread exists, or says its rule.
 */
#ifndef ABI_PROC_H
#define ABI_PROC_H

#include "abi/include/abi.h"
#include "call.h"
#include "abi/include/errno.h"
#include "abi/fs/fd.h"
#include "abi/thread/futex.h"
#include "abi/thread/lock.h"
#include "abi/include/mem.h"
#include "abi/signal/signal.h"
#include "abi/mm/space.h"
#include "abi/thread/thread.h"
#include "abi/time/time.h"
#include "abi/mm/user.h"

#define ABI_PATH_MAX 4096 /* with the NUL */
#define ABI_NR_MAX 512	  /* x86-64 numbers end below it */
#define ABI_RLIMITS 16

struct abi_rlimit {
	u64 cur, max;
};

struct abi_proc {
	const struct abi_host *host;
	struct abi_host_info info;

	struct abi_space space;
	struct abi_threads threads;
	struct abi_futexes futexes;
	struct abi_signals signals;
	struct abi_alarms alarms;
	struct abi_fds fds;

	struct abi_lock lock;	/* guards cwd, comm, limit, umask */
	char cwd[ABI_PATH_MAX]; /* absolute, no slash at the end */
	char exe[ABI_PATH_MAX];
	char comm[16];
	u32 umask;
	struct abi_rlimit limit[ABI_RLIMITS];

	u64 vdso, vdso_end;	 /* as abi_exec was told */
	u64 start_ns;		 /* CLOCK_MONOTONIC at abi_exec */
	u64 nonce;		 /* answer to ABI_NR_PROOF */
	u32 trace;		 /* log calls that are refused */
	u32 refused[ABI_NR_MAX]; /* calls answered ENOSYS; atomic add */
	u64 refused_other;	 /* numbers from ABI_NR_MAX up */

	/* argv, envp and auxv as exec laid them out, for /proc/self. */
	u64 arg_start, arg_end, env_start, env_end, auxv_start, auxv_end;
};

/*
 * Each part fills its own struct (zeroed before). 0 or a negative errno.
 * Called by abi_proc_init in this order; p->host and p->info are ready.
 */
int abi_space_init(struct abi_proc *p);
int abi_threads_init(struct abi_proc *p);
int abi_futexes_init(struct abi_proc *p);
int abi_signals_init(struct abi_proc *p);
int abi_fds_init(struct abi_proc *p);

/*
 * Before host->proc_exit, by the thread that ends the process: writes shared
 * file mappings back. Other threads may still run.
 */
void abi_proc_flush(struct abi_proc *p);

/* A sentence for the user, unless *said: sets it. */
void abi_say_once(struct abi_proc *p, u32 *said, const char *line);

/* dispatch's part of a report: how often number `nr` was refused. */
u32 abi_count_refused(const struct abi_proc *p, u32 nr);
/* Arguments as a trace prints them ("fd,ptr,size"), NULL when unknown. */
const char *abi_syscall_args(u32 nr);

#endif
