/* SPDX-License-Identifier: MIT */
/*
 * What belongs to the process of the calling thread, which may be the child of
 * a vfork: vfork.h.
 */
#ifndef ABI_PROC_OWN_H
#define ABI_PROC_OWN_H

#include "abi/state/proc.h"

/* Whether the calling thread is the child. */
static inline int abi_vfork_is(const struct abi_proc *p)
{
	u32 thread = __atomic_load_n(&p->vfork.thread, __ATOMIC_RELAXED);

	return thread && p->host->thread_self() + 1 == thread;
}

/* Whether fork(2) copies processes, which then share memory and terminals. */
static inline int abi_forks(const struct abi_proc *p)
{
	return p->host->family && !p->info.spawns;
}

/* Whether new processes are programs of Linux, outside of abi. */
static inline int abi_spawns_helpers(const struct abi_proc *p)
{
	return p->info.spawns == ABI_SPAWNS_HELPERS;
}

/* What belongs to the process of the calling thread. */
static inline struct abi_slot *abi_slots(struct abi_proc *p)
{
	return abi_vfork_is(p) ? p->vfork.slot : p->fds.slot;
}

static inline char *abi_cwd(struct abi_proc *p)
{
	return abi_vfork_is(p) ? p->vfork.cwd : p->cwd;
}

static inline u32 *abi_umask(struct abi_proc *p)
{
	return abi_vfork_is(p) ? &p->vfork.umask : &p->umask;
}

static inline struct abi_rlimit *abi_limits(struct abi_proc *p)
{
	return abi_vfork_is(p) ? p->vfork.limit : p->limit;
}

static inline struct abi_sigaction *abi_actions(struct abi_proc *p)
{
	return abi_vfork_is(p) ? p->vfork.action : p->signals.action;
}

static inline u32 abi_pid(const struct abi_proc *p)
{
	return abi_vfork_is(p) ? p->vfork.pid : p->info.pid;
}

/* The child ends with `status` as wait(2) gives it, and the caller is the
 * parent again; returns the child's pid. */
s64 abi_vfork_end(struct abi_proc *p, struct abi_thread *t,
		  struct abi_regs *regs, u32 status);

#endif
