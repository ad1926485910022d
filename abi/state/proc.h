/* SPDX-License-Identifier: MIT */
/*
 * The process: everything abi knows about one guest, as plain data. Each part
 * is guarded by the lock inside it. Other fields are written by abi_proc_init
 * and abi_exec before a second thread exists, unless their comments say
 * otherwise.
 */
#ifndef ABI_STATE_PROC_H
#define ABI_STATE_PROC_H

#include "abi/include/abi.h"
#include "alarms.h"
#include "copy.h"
#include "fds.h"
#include "futexes.h"
#include "signals.h"
#include "space.h"
#include "threads.h"
#include "vfork.h"

#define ABI_REFUSALS_MAX 32 /* of enum abi_refusal, and some room */

struct abi_proc {
	const struct abi_host *host;
	struct abi_host_info info;

	struct abi_space space;
	struct abi_threads threads;
	struct abi_futexes futexes;
	struct abi_signals signals;
	struct abi_alarms alarms;
	struct abi_fds fds;
	struct abi_vfork vfork;
	struct abi_copy copy;

	struct abi_lock lock;	/* guards cwd, comm, limit, umask */
	char cwd[ABI_PATH_MAX]; /* absolute, no slash at the end */
	char exe[ABI_PATH_MAX];
	char interp[ABI_ELF_INTERP_MAX]; /* the dynamic loader, or empty */
	char comm[16];
	u32 umask;
	struct abi_rlimit limit[ABI_RLIMITS];

	u64 vdso, vdso_end; /* as passed to abi_exec */
	u32 freeze;	  /* threads are to come to rest: snapshot.h; atomic */
	u64 start_ns;	  /* CLOCK_MONOTONIC at abi_exec */
	u64 nonce;	  /* answer to ABI_NR_PROOF */
	u32 trace;	  /* log calls that are refused */
	u32 death_signal; /* PR_SET_PDEATHSIG; atomic */
	u32 said_limit[ABI_RLIMITS]; /* that it is not enforced; atomic */
	u32 said_refused[ABI_REFUSALS_MAX]; /* by enum abi_refusal; atomic */
	u32 said_exec;			    /* what execve refused; atomic */
	u32 child;  /* came of a fork; written before it runs */
	u32 forked; /* or made one: others share its memory; atomic */
	u32 refused[ABI_NR_MAX]; /* calls answered ENOSYS; atomic add */
	u64 refused_other;	 /* numbers from ABI_NR_MAX up */

	/* argv, envp and auxv in the initial stack, for /proc/self. */
	u64 arg_start, arg_end, env_start, env_end, auxv_start, auxv_end;
};

#endif
