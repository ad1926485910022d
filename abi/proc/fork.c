// SPDX-License-Identifier: MIT
/*
 * fork(2), vfork(2) and clone(2) of a process. The host copies the process with
 * all of abi's data. Before that all locks are locked here, so that the copy is
 * consistent; then the child's copy is reduced to one thread.
 * docs/design/abi.md, "Processes".
 */
#include "fork.h"
#include "copy.h"
#include "log.h"
#include "refuse.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/include/fork.h"
#include "abi/include/mem.h"
#include "abi/include/siginfo.h"
#include "abi/include/user.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/time/cpu_timer.h"
#include "abi/uapi/linux.h"
#include "base/errno.h"
#include "call.h"
#include "vfork.h"

#define CLONE_VM 0x100ull
#define CLONE_VFORK 0x4000ull
#define CLONE_SYSVSEM 0x40000ull
#define CLONE_SETTLS 0x80000ull
#define CLONE_PARENT_SETTID 0x100000ull
#define CLONE_CHILD_CLEARTID 0x200000ull
#define CLONE_CHILD_SETTID 0x1000000ull
#define CLONE_SIGNAL 0xffull
#define CLONE_MAY                                                              \
	(CLONE_VM | CLONE_VFORK | CLONE_SYSVSEM | CLONE_SETTLS |               \
	 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID |     \
	 CLONE_SIGNAL)

/* Locks ------------------------------------------------------------------- */

/* These are first in the order: /proc/self/maps is read under them, and takes
 * space.change. */
static void lock_descs(struct abi_proc *p, u32 high)
{
	u32 i;

	abi_lock(p, &p->fds.epoll_lock);
	for (i = 0; i < high; i++)
		abi_lock(p, &p->fds.desc[i].lock);
	abi_lock(p, &p->fds.bounce_lock);
}

static void unlock_descs(struct abi_proc *p, u32 high)
{
	u32 i;

	abi_unlock(p, &p->fds.bounce_lock);
	for (i = 0; i < high; i++)
		abi_unlock(p, &p->fds.desc[i].lock);
	abi_unlock(p, &p->fds.epoll_lock);
}

/* Rings that were never used are not touched, because each would cost page
 * faults. */
static void for_rings(struct abi_proc *p,
		      void (*visit)(struct abi_proc *p, struct abi_lock *lock))
{
	u32 i;

	abi_assert_locked(&p->fds.lock);
	for (i = 0; i < p->fds.ring_high; i++)
		if (p->fds.ring[i].used)
			visit(p, &p->fds.ring[i].lock);
}

static void lock_visit(struct abi_proc *p, struct abi_lock *lock)
{
	abi_lock(p, lock);
}

static void unlock_visit(struct abi_proc *p, struct abi_lock *lock)
{
	abi_unlock(p, lock);
}

/* In the order of docs/design/abi.md. */
static void lock_rest(struct abi_proc *p)
{
	u32 i;

	abi_lock(p, &p->space.change);
	abi_lock(p, &p->lock);
	abi_lock(p, &p->alarms.lock);
	abi_lock(p, &p->futexes.pi_lock);
	abi_lock(p, &p->threads.lock);
	abi_lock(p, &p->signals.lock);
	for (i = 0; i < ABI_FUTEX_BUCKETS; i++)
		abi_lock(p, &p->futexes.bucket[i].lock);
	abi_lock(p, &p->fds.lock);
	for_rings(p, lock_visit);
	abi_lock(p, &p->space.lock);
}

static void unlock_rest(struct abi_proc *p)
{
	u32 i;

	abi_unlock(p, &p->space.lock);
	for_rings(p, unlock_visit);
	abi_unlock(p, &p->fds.lock);
	for (i = ABI_FUTEX_BUCKETS; i-- > 0;)
		abi_unlock(p, &p->futexes.bucket[i].lock);
	abi_unlock(p, &p->signals.lock);
	abi_unlock(p, &p->threads.lock);
	abi_unlock(p, &p->futexes.pi_lock);
	abi_unlock(p, &p->alarms.lock);
	abi_unlock(p, &p->lock);
	abi_unlock(p, &p->space.change);
}

/* Until fds.lock is held, other threads may create descriptions; then this
 * starts over. */
static void lock_process(struct abi_proc *p)
{
	u32 high;

	for (;;) {
		high = __atomic_load_n(&p->fds.high, __ATOMIC_RELAXED);
		lock_descs(p, high);
		lock_rest(p);
		if (p->fds.high == high)
			return;
		unlock_rest(p);
		unlock_descs(p, high);
	}
}

/*
 * Is also called in the child, whose copy has no waiters: unlocking wakes
 * nobody there.
 */
static void unlock_process(struct abi_proc *p)
{
	u32 high = p->fds.high;

	unlock_rest(p);
	unlock_descs(p, high);
}

/* Before the copy ---------------------------------------------------------- */

/*
 * From the first fork on the host keeps file positions, because parent, child
 * and all that inherit the handle share them.
 */
void abi_fork_share(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_file_op op = {
		.verb = ABI_FILE_SEEK, .mode = ABI_SEEK_SET, .len = d->pos};

	abi_assert_locked(&d->lock);
	if (d->inherited || !abi_desc_ops(d)->placed)
		return;
	/* fails for O_PATH, which has no position */
	(void)p->host->file(d->handle, &op);
	d->inherited = 1;
}

static void share_positions(struct abi_proc *p)
{
	u32 i;

	for (i = 0; i < p->fds.high; i++)
		abi_fork_share(p, &p->fds.desc[i]);
}

/* The child's copy; its locks are held --------------------------------------
 */

/* Keeps one thread, with index 0 and the pid as its tid. */
static void keep_thread(struct abi_call *c, u32 pid)
{
	struct abi_threads *all = &c->p->threads;
	struct abi_thread *t = &all->thread[0];
	u32 i;

	abi_assert_locked(&c->p->threads.lock);
	if (c->t != t)
		*t = *c->t;
	for (i = 1; i < all->high; i++)
		all->thread[i].state = ABI_THREAD_FREE;
	c->p->info.pid = pid;
	t->index = 0;
	t->tid = pid;
	t->uses = 0;
	t->park = ABI_PARK_NONE;
	t->clear_child_tid = t->robust_head = 0;
	t->sigwait = t->pending = 0;
	t->queue = ABI_NONE;
	t->calls = 0;
	abi_memset(&t->futex, 0, sizeof(t->futex));
	abi_memset(&t->pi, 0, sizeof(t->pi));
	t->futex.next = t->futex.prev = ABI_NONE;
	all->live = all->high = all->cursor = 1;
	all->main_status = 0;
	all->robust = all->watched = 0;
	c->t = t;
}

static void reset_signals(struct abi_proc *p)
{
	struct abi_signals *s = &p->signals;
	u32 i;

	abi_assert_locked(&p->signals.lock);
	for (i = 0; i < ABI_SIGNAL_QUEUE; i++)
		s->entry[i].next = i + 1 < ABI_SIGNAL_QUEUE ? i + 1 : ABI_NONE;
	s->free = 0;
	s->queue = ABI_NONE;
	s->pending = 0;
	s->said_kill = 0;
	for (i = 0; i < ABI_FUTEX_BUCKETS; i++)
		p->futexes.bucket[i].head = p->futexes.bucket[i].tail =
			ABI_NONE;
	abi_memset(p->alarms.alarm, 0, sizeof(p->alarms.alarm));
	abi_memset(p->alarms.itimer, 0, sizeof(p->alarms.itimer));
	abi_memset(p->alarms.share, 0, sizeof(p->alarms.share));
}

/*
 * Calls of threads that do not exist here had references too. What remains is
 * one reference for each number and each mapped file. The parent keeps its
 * record locks, so no handle is kept open for them.
 */
static void count_references(struct abi_proc *p)
{
	struct abi_fds *fds = &p->fds;
	struct abi_desc *d;
	u32 i;

	abi_assert_locked(&p->fds.lock);
	for (i = 0; i < fds->high; i++) {
		d = &fds->desc[i];
		d->refs = d->numbers;
		d->parked = 0;
		abi_memset(d->event.waiters, 0, sizeof(d->event.waiters));
	}
	for (i = 1; i < ABI_BACKINGS_MAX; i++)
		if (p->space.backing[i].file)
			fds->desc[p->space.backing[i].file - 1].refs++;
	for (i = 0; i < p->fds.ring_high; i++)
		if (fds->ring[i].used)
			abi_memset(fds->ring[i].event.waiters, 0,
				   sizeof(fds->ring[i].event.waiters));
	for (i = 0; i < fds->set_high; i++)
		fds->set[i].used = 0;
	abi_memset(fds->waiting, 0, sizeof(fds->waiting));
	fds->locked_files = fds->parked = 0;
}

/* Whether the description was being closed at the fork, and its handle was
 * reused. */
static int handle_reused(const struct abi_proc *p, const struct abi_desc *d)
{
	const struct abi_desc *other;
	u32 i;

	for (i = 0; i < p->fds.high; i++) {
		other = &p->fds.desc[i];
		if (other != d && abi_desc_ops(other)->handle &&
		    other->handle == d->handle)
			return 1;
	}
	return 0;
}

/* Frees descriptions to which only calls of the parent's other threads
 * referred. */
static void drop_descs(struct abi_proc *p)
{
	struct abi_desc *d;
	u32 i;

	for (i = 0; i < p->fds.high; i++) {
		d = &p->fds.desc[i];
		if (abi_desc_is_free(d) || d->refs)
			continue;
		if (abi_desc_ops(d)->handle && handle_reused(p, d)) {
			d->kind = ABI_DESC_FREE;
			continue;
		}
		abi_desc_hold(p, d);
		abi_desc_put(p, d);
	}
}

static void become_child(struct abi_call *c, u32 pid)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_BEGIN};

	keep_thread(c, pid);
	reset_signals(c->p);
	count_references(c->p);
	c->p->child = 1;
	c->p->forked = 1;
	c->p->death_signal = 0;
	c->p->vfork.thread = 0;
	c->p->freeze = 0; /* of the parent's threads */
	unlock_process(c->p);
	drop_descs(c->p);
	abi_cpu_limit_arm(c->p);
	c->p->host->family(&op, 0);
}

/* The calls ----------------------------------------------------------------
 */

struct fork {
	u64 flags, stack, parent_tid, child_tid, tls;
};

static s64 check_flags(struct abi_call *c, const struct fork *f)
{
	u64 exit_signal = f->flags & CLONE_SIGNAL;
	u64 shared = f->flags & (CLONE_VM | CLONE_VFORK);

	if (f->flags & ~CLONE_MAY || shared == CLONE_VM ||
	    (exit_signal && exit_signal != ABI_SIGCHLD)) {
		abi_log_once(c->p, &c->p->threads.said_children,
			     "clone refused (EINVAL): a new process shares "
			     "nothing with its parent and sends SIGCHLD");
		return -LINUX_EINVAL;
	}
	if (f->flags & CLONE_SETTLS)
		return abi_thread_tp_check(c->p, f->tls);
	return 0;
}

/* Runs in the child; a failed write is ignored, as on Linux. */
static void finish_child(struct abi_call *c, const struct fork *f)
{
	u32 pid = c->p->info.pid;

	if (f->flags & CLONE_CHILD_CLEARTID)
		c->t->clear_child_tid = f->child_tid;
	if (f->flags & CLONE_CHILD_SETTID)
		abi_user_put(c->p, f->child_tid, &pid, sizeof(pid));
	if (f->flags & CLONE_SETTLS) {
		c->t->tp = f->tls;
		c->p->host->thread_tp(0, f->tls);
	}
	if (f->stack)
		c->regs->rsp = f->stack;
}

/*
 * The part of the stack that the parent of a vfork shares with its child; it
 * ends where the mapped pages end.
 */
static void share_stack(struct abi_call *c, struct abi_family_op *op)
{
	u64 len = ABI_VFORK_STACK - c->regs->rsp % SKEP_PAGE_SIZE;

	while (len <= ABI_VFORK_STACK &&
	       abi_user_check(c->p, c->regs->rsp, len,
			      ABI_PROT_READ | ABI_PROT_WRITE))
		len -= SKEP_PAGE_SIZE; /* a negative length ends the loop */
	op->stack = c->regs->rsp;
	op->stack_len = len <= ABI_VFORK_STACK ? (u32)len : 0;
}

/* Takes all locks when eventfds are the host's. */
static s64 lock_shared(struct abi_proc *p)
{
	s64 rc;
	int left;

	/* from now on new ones are */
	__atomic_store_n(&p->forked, 1, __ATOMIC_SEQ_CST);
	do {
		rc = abi_copy_share(p);
		if (rc)
			return rc;
		lock_process(p);
		left = abi_copy_left(p);
		if (left)
			unlock_process(p);
	} while (left);
	return 0;
}

static s64 fork_process(struct abi_call *c, const struct fork *f)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_FORK,
				   .status = !!(f->flags & CLONE_VFORK)};
	struct abi_proc *p = c->p;
	u32 pid;
	s64 rc;

	if (op.status)
		share_stack(c, &op);
	rc = lock_shared(p);
	if (rc)
		return rc;
	share_positions(p);
	rc = p->host->family(&op, c->t->index);
	if (!rc) {
		become_child(c, (u32)op.pid);
		finish_child(c, f);
		return 0;
	}
	unlock_process(p);
	if (rc > 0 && op.status) {
		op.verb = ABI_FAMILY_FORKED;
		p->host->family(&op, c->t->index);
	}
	pid = (u32)rc;
	if (rc > 0 && f->flags & CLONE_PARENT_SETTID)
		abi_user_put(p, f->parent_tid, &pid, sizeof(pid));
	return rc;
}

/* Takes all locks when everything can be copied. */
static s64 lock_for_copy(struct abi_proc *p)
{
	s64 rc;

	do {
		rc = abi_copy_prepare(p);
		if (rc)
			return rc;
		lock_process(p);
		rc = abi_copy_check(p);
		if (rc)
			unlock_process(p);
	} while (rc > 0);
	return rc;
}

/* The host copies the process, under all locks. Returns the child's pid. */
static s64 copy_process(struct abi_call *c, const struct fork *f,
			struct abi_family_op *op, u64 *held)
{
	struct abi_proc *p = c->p;
	s64 rc = lock_for_copy(p);

	if (rc)
		return rc;
	share_positions(p);
	abi_copy_hold(p, held);
	p->copy.thread = c->t->index;
	p->copy.flags = f->flags;
	p->copy.stack = f->stack;
	p->copy.child_tid = f->child_tid;
	p->copy.tls = f->tls;
	(void)p->host->vec_save(p->copy.vec, p->info.xsave_size);
	c->t->regs = *c->regs;
	rc = p->host->family(op, c->t->index);
	unlock_process(p);
	return rc;
}

/*
 * The host makes the child from a new process, which calls abi_fork_resume.
 * Until that goes on, this thread waits without locks, but keeps what the child
 * takes over from being closed.
 */
static s64 fork_copy(struct abi_call *c, const struct fork *f)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_FORK};
	struct abi_proc *p = c->p;
	u64 held[ABI_COPY_HELD] = {0};
	u32 pid;
	s64 rc, error;

	abi_copy_begin(p);
	rc = copy_process(c, f, &op, held);
	if (rc > 0) {
		op.verb = ABI_FAMILY_FORKED;
		error = p->host->family(&op, c->t->index);
		rc = error ? error : rc;
	}
	abi_copy_end(p, held);
	pid = (u32)rc;
	if (rc > 0 && f->flags & CLONE_PARENT_SETTID)
		abi_user_put(p, f->parent_tid, &pid, sizeof(pid));
	return rc;
}

void abi_fork_resume(struct abi_proc *p, u32 pid)
{
	struct fork f = {.flags = p->copy.flags,
			 .stack = p->copy.stack,
			 .child_tid = p->copy.child_tid,
			 .tls = p->copy.tls};
	struct abi_call c = {.p = p, .t = &p->threads.thread[p->copy.thread]};

	p->copy.busy = 0;
	become_child(&c, pid);
	c.regs = &c.t->regs;
	c.regs->rax = 0;
	finish_child(&c, &f);
}

/* On a host that starts processes by execve: flags that write to the child's
 * memory are of no use, because that is the parent's. */
static s64 borrow_thread(struct abi_call *c, const struct fork *f)
{
	if (abi_vfork_is(c->p) ||
	    f->flags & ~(CLONE_VM | CLONE_VFORK | CLONE_SIGNAL))
		return abi_refuse(c->p, ABI_REFUSE_VFORK_CHILD, -LINUX_EAGAIN);
	return abi_vfork_begin(c, f->stack);
}

static s64 spawn_process(struct abi_call *c, const struct fork *f)
{
	if (f->flags & CLONE_VFORK)
		return borrow_thread(c, f);
	if (abi_vfork_is(c->p))
		return abi_refuse(c->p, ABI_REFUSE_VFORK_CHILD, -LINUX_EAGAIN);
	if (abi_spawns_helpers(c->p))
		return abi_refuse(c->p, ABI_REFUSE_FORK, -LINUX_ENOSYS);
	return fork_copy(c, f);
}

s64 abi_sys_fork(struct abi_call *c)
{
	struct fork f = {.flags = ABI_SIGCHLD};

	if (!c->p->host->family)
		return abi_thread_no_children(c->p, "fork");
	if (c->p->info.spawns)
		return spawn_process(c, &f);
	return fork_process(c, &f);
}

s64 abi_sys_vfork(struct abi_call *c)
{
	struct fork f = {.flags = CLONE_VM | CLONE_VFORK | ABI_SIGCHLD};

	if (!c->p->host->family)
		return abi_thread_no_children(c->p, "vfork");
	if (c->p->info.spawns)
		return spawn_process(c, &f);
	return fork_process(c, &f);
}

s64 abi_fork_clone(struct abi_call *c)
{
	struct fork f = {c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]};
	s64 rc;

	if (!c->p->host->family)
		return abi_thread_no_children(c->p, "clone");
	rc = check_flags(c, &f);
	if (!rc && c->p->info.spawns)
		return spawn_process(c, &f);
	return rc ? rc : fork_process(c, &f);
}
