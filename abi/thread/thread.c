/* SPDX-License-Identifier: MIT */
/*
 * The table of guest threads, parking, and the end of a thread.
 *
 * threads.lock guards state, tid, uses, live, cursor and the affinity masks.
 * Apart from these, a record that is not FREE belongs to its own thread; fields
 * that other threads use are atomic or guarded as thread.h says.
 *
 * The host chooses a tid (host->thread_number), so that no process that shares
 * memory has a thread with the same one: lock words contain their owner's. For
 * a host that does not, it is pid + index + ABI_THREADS_MAX * uses, so that it
 * is reused only after a long time. It is below 2^30, because user space keeps
 * flags above that in its lock words.
 */
#include "thread.h"
#include "futex.h"
#include "lock.h"
#include "robust.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"

#define USES_MASK 0x3ffffu

struct abi_thread *abi_thread_get(struct abi_proc *p, u32 index)
{
	return &p->threads.thread[index];
}

struct abi_thread *abi_thread_find(struct abi_proc *p, u32 tid)
{
	struct abi_thread *t = 0;
	u32 i;

	abi_lock(p, &p->threads.lock);
	for (i = 0; i < p->threads.high && !t; i++)
		if (p->threads.thread[i].tid == tid &&
		    p->threads.thread[i].state == ABI_THREAD_LIVE)
			t = &p->threads.thread[i];
	abi_unlock(p, &p->threads.lock);
	return t;
}

struct abi_regs *abi_thread_regs(struct abi_proc *p, u32 t)
{
	return &abi_thread_get(p, t)->regs;
}

u64 abi_thread_tp(const struct abi_proc *p, u32 t)
{
	return p->threads.thread[t].tp;
}

/* Clears a record, except index, uses and the park word. */
static void thread_reset(struct abi_proc *p, struct abi_thread *t)
{
	u32 index = (u32)(t - p->threads.thread), uses = t->uses;
	u64 calls = t->calls; /* the report adds up the calls of all threads */

	abi_memset(t, 0, sizeof(*t));
	t->index = index;
	t->uses = uses;
	t->calls = calls;
	t->tid = p->info.pid + index + ABI_THREADS_MAX * (uses & USES_MASK);
	t->queue = ABI_NONE;
	t->alt_flags = ABI_SS_DISABLE;
	t->futex.next = t->futex.prev = ABI_NONE;
}

static void affinity_all(struct abi_proc *p, struct abi_thread *t)
{
	u32 i;

	for (i = 0; i < p->info.cpus && i < 64 * ABI_AFFINITY_WORDS; i++)
		t->affinity[i / 64] |= 1ull << (i % 64);
}

int abi_threads_init(struct abi_proc *p)
{
	struct abi_threads *all = &p->threads;
	struct abi_thread *t = &all->thread[0];

	if (!p->info.cpus || p->info.pid < 2 || p->info.pid > 0x3fffffff / 2)
		return -LINUX_EINVAL;
	thread_reset(p, t);
	affinity_all(p, t);
	t->state = ABI_THREAD_LIVE;
	all->live = 1;
	all->cursor = 1;
	all->high = 1;
	return 0;
}

struct abi_thread *abi_thread_new(struct abi_proc *p)
{
	struct abi_threads *all = &p->threads;
	struct abi_thread *t = 0;
	u32 i, index;

	abi_lock(p, &all->lock);
	for (i = 0; i < ABI_THREADS_MAX && !t; i++) {
		index = (all->cursor + i) % ABI_THREADS_MAX;
		if (all->thread[index].state != ABI_THREAD_FREE)
			continue;
		t = &all->thread[index];
		thread_reset(p, t);
		affinity_all(p, t);
		t->state = ABI_THREAD_STARTING;
		all->live++;
		all->cursor = index + 1;
		if (index >= all->high)
			__atomic_store_n(&all->high, index + 1,
					 __ATOMIC_RELEASE);
	}
	abi_unlock(p, &all->lock);
	return t;
}

void abi_thread_gone(struct abi_proc *p, u32 index)
{
	struct abi_thread *t = abi_thread_get(p, index);

	if (!index)
		/* the process is named after thread 0 while that exists */
		return;
	abi_lock(p, &p->threads.lock);
	if (t->state == ABI_THREAD_EXITED) {
		t->uses++;
		t->state = ABI_THREAD_FREE;
	}
	abi_unlock(p, &p->threads.lock);
}

void abi_thread_live(struct abi_proc *p, struct abi_thread *t)
{
	abi_lock(p, &p->threads.lock);
	__atomic_store_n(&t->state, ABI_THREAD_LIVE, __ATOMIC_RELEASE);
	abi_unlock(p, &p->threads.lock);
}

void abi_thread_undo(struct abi_proc *p, struct abi_thread *t)
{
	abi_lock(p, &p->threads.lock);
	p->threads.live--;
	t->state = ABI_THREAD_EXITED;
	abi_unlock(p, &p->threads.lock);
	abi_signal_thread_end(p, t);
	abi_lock(p, &p->threads.lock);
	t->uses++;
	t->state = ABI_THREAD_FREE;
	abi_unlock(p, &p->threads.lock);
}

/* Parking --------------------------------------------------------------- */

s64 abi_thread_park(struct abi_proc *p, struct abi_thread *t, u64 deadline,
		    int interruptible)
{
	u32 none = ABI_PARK_NONE;
	s64 rc;

	if (!__atomic_compare_exchange_n(&t->park, &none, ABI_PARK_ASLEEP, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		__atomic_exchange_n(&t->park, ABI_PARK_NONE, __ATOMIC_SEQ_CST);
		return interruptible && abi_pending(p, t->index) ? -LINUX_EINTR
								 : 0;
	}
	/* ASLEEP is set: a sender whose signal is not seen here sees it */
	if (interruptible && abi_pending(p, t->index))
		rc = -LINUX_EINTR;
	else
		rc = p->host->wait(&t->park, ABI_PARK_ASLEEP, deadline);
	if (__atomic_exchange_n(&t->park, ABI_PARK_NONE, __ATOMIC_SEQ_CST) ==
		    ABI_PARK_TOKEN &&
	    rc == -LINUX_ETIMEDOUT)
		rc = 0;
	if (interruptible && abi_pending(p, t->index))
		return -LINUX_EINTR;
	return rc == -LINUX_ETIMEDOUT ? rc : 0;
}

void abi_thread_unpark(struct abi_proc *p, struct abi_thread *t)
{
	if (__atomic_exchange_n(&t->park, ABI_PARK_TOKEN, __ATOMIC_SEQ_CST) ==
	    ABI_PARK_ASLEEP)
		p->host->wake(&t->park, 1);
}

void abi_thread_asleep(struct abi_thread *t, u32 asleep)
{
	__atomic_store_n(&t->asleep, asleep, __ATOMIC_RELAXED);
}

char abi_thread_letter(const struct abi_thread *t)
{
	if (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == ABI_THREAD_EXITED)
		return 'Z';
	return __atomic_load_n(&t->asleep, __ATOMIC_RELAXED) ||
			       __atomic_load_n(&t->park, __ATOMIC_SEQ_CST) ==
				       ABI_PARK_ASLEEP
		       ? 'S'
		       : 'R';
}

u64 abi_thread_deadline(struct abi_call *c, u64 ns)
{
	u64 now;

	if (c->t->again)
		return c->t->again_deadline;
	now = (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC);
	if (ns >= ABI_FOREVER - now)
		c->t->again_deadline = ABI_FOREVER;
	else
		c->t->again_deadline = now + ns;
	return c->t->again_deadline;
}

/* The end of a thread ---------------------------------------------------- */

static void clear_tid(struct abi_proc *p, struct abi_thread *t)
{
	u64 gaddr = t->clear_child_tid;

	t->clear_child_tid = 0;
	if (!gaddr || gaddr % 4 || abi_user_check(p, gaddr, 4, ABI_PROT_WRITE))
		return;
	if (!abi_user_store(gaddr, 0))
		abi_futex_wake_one(p, t, gaddr);
}

void abi_thread_end(struct abi_proc *p, struct abi_thread *t, u32 status)
{
	struct abi_threads *all = &p->threads;
	u32 index = t->index, last;

	status = (status & 0xff) << 8;
	abi_futex_pi_end(p, t);
	abi_robust_walk(p, t, abi_futex_wake_one);
	t->robust_head = 0;
	abi_lock(p, &all->lock);
	last = all->live == 1;
	if (!last)
		all->live--;
	if (!index)
		all->main_status = status;
	else if (all->thread[0].state == ABI_THREAD_EXITED)
		status = all->main_status;
	if (!last)
		t->state = ABI_THREAD_EXITED;
	abi_unlock(p, &all->lock);
	if (last)
		abi_thread_end_all(p, t, status);
	abi_signal_thread_end(p, t);
	/* last: a joiner may reuse the stack and start a new thread */
	clear_tid(p, t);
	p->host->thread_exit(index);
}

void abi_thread_end_all(struct abi_proc *p, struct abi_thread *t, u32 status)
{
	abi_robust_walk(p, t, abi_futex_wake_one);
	abi_space_flush(p);
	p->host->proc_exit(status);
	__builtin_unreachable();
}

s64 abi_thread_no_children(struct abi_proc *p, const char *name)
{
	char line[160];
	struct abi_text text;

	if (__atomic_exchange_n(&p->threads.said_children, 1, __ATOMIC_RELAXED))
		return -LINUX_ENOSYS;
	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, name);
	abi_text_str(&text, ": fork and exec are not supported; use a build of "
			    "the program that runs in one process");
	p->host->log(line);
	return -LINUX_ENOSYS;
}
