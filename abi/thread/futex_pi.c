/* SPDX-License-Identifier: MIT */
/*
 * Futexes with an owner: FUTEX_LOCK_PI and related operations. The word
 * contains the owner's tid; unlocking passes it to the thread that has waited
 * longest. No priority is inherited, because guest threads have no priorities.
 *
 * futexes.pi_lock guards the waiters (struct abi_pi_wait), each of which
 * records the owner, because user space may change the word (musl itself marks
 * the words of a dying thread): the records decide to whom a word is passed.
 * threads.lock is taken inside.
 */
#include "futex.h"
#include "lock.h"
#include "thread.h"
#include "word.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"

#define MUST_WAIT 1
#define MUST_RETRY 2 /* the owner is ending; its word will show that soon */

static u32 thread_count(struct abi_proc *p)
{
	return __atomic_load_n(&p->threads.high, __ATOMIC_ACQUIRE);
}

/* The thread that has waited longest, or NULL; *more: others wait too. */
static struct abi_thread *first_waiter(struct abi_proc *p, u64 gaddr, u32 *more)
{
	struct abi_thread *t, *first = 0;
	u32 i, n = thread_count(p), found = 0;

	for (i = 0; i < n; i++) {
		t = abi_thread_get(p, i);
		if (t->pi.gaddr != gaddr)
			continue;
		found++;
		if (!first || t->pi.ticket < first->pi.ticket)
			first = t;
	}
	*more = found > 1;
	return first;
}

/*
 * Whether waiting for `owner` would be a deadlock. 0; -ESRCH: no thread has
 * this tid; -EDEADLK; MUST_RETRY.
 */
static s64 owner_check(struct abi_proc *p, struct abi_thread *t, u32 owner)
{
	struct abi_thread *o = abi_thread_find(p, owner);
	u32 depth;

	if (!o)
		return -LINUX_ESRCH;
	if (o->pi.ending)
		return MUST_RETRY;
	for (depth = 0; o && o->pi.gaddr && depth < ABI_THREADS_MAX; depth++) {
		if (o->pi.owner == t->tid)
			return -LINUX_EDEADLK;
		o = abi_thread_find(p, o->pi.owner);
	}
	return 0;
}

/* Acquires the word, or marks it as waited for: 0, MUST_WAIT, MUST_RETRY or an
 * error. */
static s64 word_lock(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
		     u32 try)
{
	struct abi_thread *first;
	u32 old, fresh, owner, more;
	s64 rc;
	int done;

	first = first_waiter(p, gaddr, &more);
	if (abi_user_load(gaddr, &old))
		return -LINUX_EFAULT;
	do {
		owner = old & FUTEX_TID_MASK;
		fresh = old | FUTEX_WAITERS;
		if (owner == t->tid)
			return -LINUX_EDEADLK;
		if (!owner && first)
			owner = first->pi.owner; /* it is ending */
		rc = owner ? owner_check(p, t, owner) : 0;
		if (try && (rc == -LINUX_EDEADLK || (owner && !rc)))
			rc = -LINUX_EAGAIN;
		if (rc)
			return rc;
		if (!owner)
			fresh = t->tid | (old & FUTEX_OWNER_DIED);
		done = abi_user_swap(gaddr, &old, fresh);
		if (done < 0)
			return -LINUX_EFAULT;
	} while (!done);
	t->pi.owner = owner;
	return owner ? MUST_WAIT : 0;
}

/* The caller holds pi_lock. Leaves the token last, like wake_one in futex.c. */
static void word_grant(struct abi_proc *p, struct abi_thread *t)
{
	abi_assert_locked(&p->futexes.pi_lock);
	t->pi.gaddr = 0;
	__atomic_store_n(&t->pi.granted, 1, __ATOMIC_SEQ_CST);
	abi_thread_unpark(p, t);
}

/* Waits until a thread passes the word on. */
static s64 wait_grant(struct abi_proc *p, struct abi_thread *t, u64 deadline)
{
	s64 rc;

	while (!__atomic_load_n(&t->pi.granted, __ATOMIC_SEQ_CST)) {
		rc = abi_thread_park(p, t, deadline, 1);
		if (!rc)
			continue;
		abi_lock(p, &p->futexes.pi_lock);
		if (t->pi.granted)
			rc = 0;
		else
			t->pi.gaddr = 0;
		abi_unlock(p, &p->futexes.pi_lock);
		if (rc)
			return rc == -LINUX_EINTR ? -ABI_ERESTARTNOINTR : rc;
	}
	return 0;
}

static s64 word_check(struct abi_proc *p, u64 gaddr)
{
	if (gaddr % 4)
		return -LINUX_EINVAL;
	return abi_user_check(p, gaddr, 4, ABI_PROT_READ | ABI_PROT_WRITE);
}

s64 abi_futex_pi_take(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
		      u64 deadline, u32 try)
{
	struct abi_futexes *f = &p->futexes;
	s64 rc = word_check(p, gaddr);

	if (rc)
		return rc;
	abi_lock(p, &f->pi_lock);
	while ((rc = word_lock(p, t, gaddr, try)) == MUST_RETRY) {
		abi_unlock(p, &f->pi_lock);
		p->host->thread_yield();
		abi_lock(p, &f->pi_lock);
	}
	if (rc == MUST_WAIT) {
		t->pi.granted = 0;
		t->pi.ticket = f->pi_ticket++;
		t->pi.gaddr = gaddr;
	}
	abi_unlock(p, &f->pi_lock);
	return rc == MUST_WAIT ? wait_grant(p, t, deadline) : rc;
}

static void set_owner(struct abi_proc *p, u64 gaddr, u32 owner)
{
	struct abi_thread *t;
	u32 i, n = thread_count(p);

	for (i = 0; i < n; i++) {
		t = abi_thread_get(p, i);
		if (t->pi.gaddr == gaddr)
			t->pi.owner = owner;
	}
}

/*
 * Passes the word from `t` to the longest waiter, if there is one. The caller
 * holds pi_lock. died: `t` ends, and the word may have another value now.
 */
static s64 hand_over(struct abi_proc *p, u64 gaddr, struct abi_thread *t,
		     u32 died)
{
	u32 old, fresh, more;
	struct abi_thread *next = first_waiter(p, gaddr, &more);
	int done;

	abi_assert_locked(&p->futexes.pi_lock);
	if (abi_user_load(gaddr, &old))
		return -LINUX_EFAULT;
	do {
		if (!died && (old & FUTEX_TID_MASK) != t->tid)
			return -LINUX_EPERM;
		fresh = next ? next->tid | died | (more ? FUTEX_WAITERS : 0)
			     : died;
		done = abi_user_swap(gaddr, &old, fresh);
		if (done < 0)
			return -LINUX_EFAULT;
	} while (!done);
	if (next) {
		word_grant(p, next);
		set_owner(p, gaddr, next->tid);
	}
	return 0;
}

s64 abi_futex_pi_drop(struct abi_proc *p, struct abi_thread *t, u64 gaddr)
{
	s64 rc = word_check(p, gaddr);

	if (rc)
		return rc;
	abi_lock(p, &p->futexes.pi_lock);
	rc = hand_over(p, gaddr, t, 0);
	abi_unlock(p, &p->futexes.pi_lock);
	return rc;
}

void abi_futex_pi_end(struct abi_proc *p, struct abi_thread *t)
{
	struct abi_thread *w;
	u32 i, n;

	abi_lock(p, &p->futexes.pi_lock);
	t->pi.ending = 1;
	n = thread_count(p);
	for (i = 0; i < n; i++) {
		w = abi_thread_get(p, i);
		if (w->pi.gaddr && w->pi.owner == t->tid)
			(void)hand_over(p, w->pi.gaddr, t, FUTEX_OWNER_DIED);
	}
	abi_unlock(p, &p->futexes.pi_lock);
}
