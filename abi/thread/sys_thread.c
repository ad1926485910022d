/* SPDX-License-Identifier: MIT */
/*
 * Starting and ending threads, and their attributes. A clone that is not a
 * thread is a process: abi/proc/fork.c.
 */
#include "lock.h"
#include "robust.h"
#include "thread.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/proc/fork.h"
#include "abi/proc/vfork.h"
#include "abi/state/proc.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"

#define CLONE_VM 0x100ull
#define CLONE_FS 0x200ull
#define CLONE_FILES 0x400ull
#define CLONE_SIGHAND 0x800ull
#define CLONE_THREAD 0x10000ull
#define CLONE_SYSVSEM 0x40000ull
#define CLONE_SETTLS 0x80000ull
#define CLONE_PARENT_SETTID 0x100000ull
#define CLONE_CHILD_CLEARTID 0x200000ull
#define CLONE_DETACHED 0x400000ull /* has no effect; musl sets it */
#define CLONE_CHILD_SETTID 0x1000000ull
#define CLONE_SIGNAL 0xffull /* ignored for a thread */
#define CLONE_MUST                                                             \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define CLONE_MAY                                                              \
	(CLONE_MUST | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |     \
	 CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | CLONE_DETACHED |          \
	 CLONE_SIGNAL)

#define ARCH_SET_GS 0x1001
#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003
#define ARCH_GET_GS 0x1004

#define ROBUST_HEAD_SIZE 24

/* Host code reads the stack protector's word, at tp + 0x28. */
#define TP_SPAN 0x30

s64 abi_thread_tp_check(struct abi_proc *p, u64 tp)
{
	if (tp >= SKEP_ARENA_END ||
	    abi_user_check(p, tp, TP_SPAN, ABI_PROT_READ))
		return -LINUX_EPERM;
	return 0;
}

static s64 clone_check(struct abi_call *c)
{
	u64 flags = c->a[0];

	if ((flags & CLONE_MUST) != CLONE_MUST || flags & ~CLONE_MAY)
		return abi_refuse(c->p, ABI_REFUSE_CLONE, -LINUX_EINVAL);
	if (!c->a[1])
		return -LINUX_EINVAL; /* two threads would share a stack */
	if (flags & CLONE_SETTLS)
		return abi_thread_tp_check(c->p, c->a[4]);
	return 0;
}

/* Initializes the child as a copy of the parent, before other threads know of
 * it. */
static void clone_fill(struct abi_call *c, struct abi_thread *child)
{
	u64 flags = c->a[0];

	child->regs = *c->regs;
	child->regs.rax = 0;
	child->regs.rsp = c->a[1];
	child->tp = flags & CLONE_SETTLS ? c->a[4] : c->t->tp;
	child->blocked = c->t->blocked;
	if (flags & CLONE_CHILD_CLEARTID)
		child->clear_child_tid = c->a[3];
	abi_memcpy(child->comm, c->t->comm, sizeof(child->comm));
	abi_lock(c->p, &c->p->threads.lock);
	abi_memcpy(child->affinity, c->t->affinity, sizeof(child->affinity));
	abi_unlock(c->p, &c->p->threads.lock);
}

/* As on Linux, a bad address does not make the call fail here. */
static void clone_tell(struct abi_call *c, u32 tid)
{
	if (c->a[0] & CLONE_PARENT_SETTID)
		abi_user_put(c->p, c->a[2], &tid, sizeof(tid));
	if (c->a[0] & CLONE_CHILD_SETTID)
		abi_user_put(c->p, c->a[3], &tid, sizeof(tid));
}

/*
 * RLIMIT_NPROC. It limits all threads of a user; here, those of this process.
 * As on Linux it does not apply to root.
 */
static int is_at_limit(struct abi_proc *p)
{
	u64 live = __atomic_load_n(&p->threads.live, __ATOMIC_RELAXED);
	u64 most = __atomic_load_n(&p->limit[ABI_RLIMIT_NPROC].cur,
				   __ATOMIC_RELAXED);

	return p->info.uid && live >= most;
}

/* 0: the host chooses none. -EAGAIN: it cannot start a thread. */
static s64 choose_number(struct abi_proc *p, struct abi_thread *child)
{
	s64 n = p->host->thread_number ? p->host->thread_number(child->index)
				       : 0;

	if (n <= 0)
		return n;
	abi_lock(p, &p->threads.lock);
	child->tid = (u32)n;
	abi_unlock(p, &p->threads.lock);
	return 0;
}

s64 abi_sys_clone(struct abi_call *c)
{
	struct abi_thread *child;
	s64 rc;
	u32 tid;

	if (is_at_limit(c->p))
		return -LINUX_EAGAIN;
	if (abi_vfork_is(c->p))
		return abi_refuse(c->p, ABI_REFUSE_VFORK_CHILD, -LINUX_EAGAIN);
	if (!(c->a[0] & CLONE_THREAD))
		return abi_fork_clone(c);
	rc = clone_check(c);
	if (rc)
		return rc;
	child = abi_thread_new(c->p);
	if (!child)
		return -LINUX_EAGAIN;
	clone_fill(c, child);
	rc = choose_number(c->p, child);
	tid = child->tid;
	if (!rc) {
		clone_tell(c, tid);
		abi_thread_live(c->p, child);
		rc = c->p->host->thread_start(child->index);
	}
	if (!rc)
		return tid;
	abi_thread_undo(c->p, child);
	return -LINUX_EAGAIN;
}

s64 abi_sys_exit(struct abi_call *c)
{
	if (abi_vfork_is(c->p))
		return abi_vfork_exit(c, ((u32)c->a[0] & 0xff) << 8);
	abi_thread_end(c->p, c->t, (u32)c->a[0]);
	return 0;
}

s64 abi_sys_exit_group(struct abi_call *c)
{
	if (abi_vfork_is(c->p))
		return abi_vfork_exit(c, ((u32)c->a[0] & 0xff) << 8);
	abi_thread_end_all(c->p, c->t, ((u32)c->a[0] & 0xff) << 8);
	return 0;
}

s64 abi_sys_set_tid_address(struct abi_call *c)
{
	c->t->clear_child_tid = c->a[0];
	return c->t->tid;
}

s64 abi_sys_gettid(struct abi_call *c)
{
	return abi_vfork_is(c->p) ? c->p->vfork.pid : c->t->tid;
}

s64 abi_sys_set_robust_list(struct abi_call *c)
{
	if (c->a[1] != ROBUST_HEAD_SIZE)
		return -LINUX_EINVAL;
	c->t->robust_head = c->a[0];
	if (c->a[0])
		abi_robust_listed(c->p);
	return 0;
}

/* The thread with this tid; 0 is the caller. */
static struct abi_thread *thread_of_tid(struct abi_call *c, u64 tid)
{
	return (u32)tid ? abi_thread_find(c->p, (u32)tid) : c->t;
}

s64 abi_sys_get_robust_list(struct abi_call *c)
{
	struct abi_thread *t = thread_of_tid(c, c->a[0]);
	u64 head, size = ROBUST_HEAD_SIZE;

	if (!t)
		return -LINUX_ESRCH;
	head = t->robust_head;
	if (ABI_PUT(c->p, c->a[2], &size) || ABI_PUT(c->p, c->a[1], &head))
		return -LINUX_EFAULT;
	return 0;
}

s64 abi_sys_arch_prctl(struct abi_call *c)
{
	u64 zero = 0;
	s64 rc;

	switch ((u32)c->a[0]) {
	case ARCH_SET_FS:
		rc = abi_thread_tp_check(c->p, c->a[1]);
		if (rc)
			return rc;
		c->t->tp = c->a[1];
		c->p->host->thread_tp(c->t->index, c->a[1]);
		return 0;
	case ARCH_GET_FS:
		return ABI_PUT(c->p, c->a[1], &c->t->tp);
	case ARCH_GET_GS:
		return ABI_PUT(c->p, c->a[1], &zero);
	case ARCH_SET_GS:
		c->p->host->log("arch_prctl: the GS base belongs to the host; "
				"ARCH_SET_GS is refused");
		return -LINUX_EPERM;
	}
	/* also for ARCH_CET_STATUS: there is no shadow stack */
	return -LINUX_EINVAL;
}

/* Scheduling
 * ------------------------------------------------------------------- */

s64 abi_sys_sched_yield(struct abi_call *c)
{
	return c->p->host->thread_yield();
}

static u64 affinity_bytes(struct abi_proc *p)
{
	u64 cpus = p->info.cpus;

	if (cpus > 64 * ABI_AFFINITY_WORDS)
		cpus = 64 * ABI_AFFINITY_WORDS;
	return (cpus + 63) / 64 * 8;
}

s64 abi_sys_sched_getaffinity(struct abi_call *c)
{
	struct abi_thread *t = thread_of_tid(c, c->a[0]);
	u64 bytes = affinity_bytes(c->p), mask[ABI_AFFINITY_WORDS];

	if (c->a[1] % 8 || (u32)c->a[1] * 8ull < c->p->info.cpus)
		return -LINUX_EINVAL;
	if (!t)
		return -LINUX_ESRCH;
	if (bytes > (u32)c->a[1])
		bytes = (u32)c->a[1];
	abi_lock(c->p, &c->p->threads.lock);
	abi_memcpy(mask, t->affinity, sizeof(mask));
	abi_unlock(c->p, &c->p->threads.lock);
	return abi_user_put(c->p, c->a[2], mask, bytes) ? -LINUX_EFAULT
							: (s64)bytes;
}

/* Clears the bits of CPUs that do not exist; 1 if some are left. */
static int affinity_trim(struct abi_proc *p, u64 *mask)
{
	u64 any = 0;
	u32 i;

	for (i = 0; i < 64 * ABI_AFFINITY_WORDS; i++)
		if (i >= p->info.cpus)
			mask[i / 64] &= ~(1ull << (i % 64));
	for (i = 0; i < ABI_AFFINITY_WORDS; i++)
		any |= mask[i];
	return any != 0;
}

s64 abi_sys_sched_setaffinity(struct abi_call *c)
{
	struct abi_thread *t = thread_of_tid(c, c->a[0]);
	u64 mask[ABI_AFFINITY_WORDS] = {0}, bytes = (u32)c->a[1];
	s64 rc;

	if (bytes > sizeof(mask))
		bytes = sizeof(mask);
	if (abi_user_get(c->p, mask, c->a[2], bytes))
		return -LINUX_EFAULT;
	if (!t)
		return -LINUX_ESRCH;
	if (!affinity_trim(c->p, mask))
		return -LINUX_EINVAL;
	rc = c->p->host->thread_affinity(t->index, mask, sizeof(mask));
	if (rc)
		return rc;
	abi_lock(c->p, &c->p->threads.lock);
	abi_memcpy(t->affinity, mask, sizeof(mask));
	abi_unlock(c->p, &c->p->threads.lock);
	return 0;
}

/* Returns a CPU on which the thread may run; it is only a hint. */
s64 abi_sys_getcpu(struct abi_call *c)
{
	u32 cpu = 0, node = 0;

	while (cpu < 64 * ABI_AFFINITY_WORDS - 1 &&
	       !(c->t->affinity[cpu / 64] >> (cpu % 64) & 1))
		cpu++;
	if (c->a[0] && ABI_PUT(c->p, c->a[0], &cpu))
		return -LINUX_EFAULT;
	if (c->a[1] && ABI_PUT(c->p, c->a[1], &node))
		return -LINUX_EFAULT;
	return 0;
}

#define SCHED_OTHER 0u
#define SCHED_FIFO 1u
#define SCHED_RR 2u
#define SCHED_BATCH 3u
#define SCHED_IDLE 5u
#define SCHED_RESET_ON_FORK 0x40000000u

static s64 policy_check(u32 policy, s32 priority)
{
	switch (policy & ~SCHED_RESET_ON_FORK) {
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
		return priority ? -LINUX_EINVAL : 0;
	case SCHED_FIFO:
	case SCHED_RR:
		return priority < 1 || priority > 99 ? -LINUX_EINVAL
						     : -LINUX_EPERM;
	}
	return -LINUX_EINVAL;
}

static s64 policy_set(struct abi_call *c, u32 policy, u64 gaddr)
{
	s32 priority;

	if ((s32)c->a[0] < 0 || !gaddr)
		return -LINUX_EINVAL;
	if (ABI_GET(c->p, &priority, gaddr))
		return -LINUX_EFAULT;
	if (!thread_of_tid(c, c->a[0]))
		return -LINUX_ESRCH;
	return policy_check(policy, priority);
}

s64 abi_sys_sched_setscheduler(struct abi_call *c)
{
	return policy_set(c, (u32)c->a[1], c->a[2]);
}

s64 abi_sys_sched_setparam(struct abi_call *c)
{
	return policy_set(c, SCHED_OTHER, c->a[1]);
}

s64 abi_sys_sched_getscheduler(struct abi_call *c)
{
	if ((s32)c->a[0] < 0)
		return -LINUX_EINVAL;
	return thread_of_tid(c, c->a[0]) ? (s64)SCHED_OTHER : -LINUX_ESRCH;
}

s64 abi_sys_sched_getparam(struct abi_call *c)
{
	s32 priority = 0;

	if ((s32)c->a[0] < 0 || !c->a[1])
		return -LINUX_EINVAL;
	if (!thread_of_tid(c, c->a[0]))
		return -LINUX_ESRCH;
	return ABI_PUT(c->p, c->a[1], &priority);
}

static s64 priority_bound(u32 policy, s64 bound)
{
	switch (policy) {
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
		return 0;
	case SCHED_FIFO:
	case SCHED_RR:
		return bound;
	}
	return -LINUX_EINVAL;
}

s64 abi_sys_sched_get_priority_max(struct abi_call *c)
{
	return priority_bound((u32)c->a[0], 99);
}

s64 abi_sys_sched_get_priority_min(struct abi_call *c)
{
	return priority_bound((u32)c->a[0], 1);
}

s64 abi_sys_sched_rr_get_interval(struct abi_call *c)
{
	if ((s32)c->a[0] < 0)
		return -LINUX_EINVAL;
	if (!thread_of_tid(c, c->a[0]))
		return -LINUX_ESRCH;
	return abi_time_put(c->p, c->a[1], 4000000);
}

/* No command is supported, so callers use their own barriers. */
s64 abi_sys_membarrier(struct abi_call *c)
{
	return c->a[0] == 0 && c->a[1] == 0 ? 0 : -LINUX_EINVAL;
}
