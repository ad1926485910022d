/* SPDX-License-Identifier: MIT */
/*
 * Futexes with an owner (FUTEX_LOCK_PI and related operations) in memory that
 * processes share. There is no record of waiters but the host's queue, because
 * any process may be killed at any time. So an unlock clears the word and wakes
 * one waiter; that takes the word unless another thread was faster, whereas
 * Linux passes the word on. A waiter looks now and then whether the owner
 * lives, and whether the word is free because a waiter was killed that had been
 * woken.
 *
 * futexes.pi_lock guards `shared` of the threads of this process, with which a
 * ring of its own threads is found; one that goes through another process is
 * not.
 */
#include "futex.h"
#include "lock.h"
#include "thread.h"
#include "word.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/proc/log.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"

#define WAIT_BITSET 9
#define WAKE_BITSET 10
#define LOOK_NS 100000000

#define MUST_WAIT 1
#define MUST_RETRY 2

struct taker {
	struct abi_proc *p;
	struct abi_thread *t;
	u64 gaddr;
	u32 try;
	u32 waited; /* others may wait too, and the owner lived */
	u32 value;  /* of the word, on MUST_WAIT */
};

static s64 word_check(struct abi_proc *p, u64 gaddr)
{
	if (gaddr % 4)
		return -LINUX_EINVAL;
	return abi_user_check(p, gaddr, 4, ABI_PROT_READ | ABI_PROT_WRITE);
}

/* The thread of this process that owns what `o` waits for, or NULL. */
static struct abi_thread *next_owner(struct abi_proc *p, struct abi_thread *o)
{
	u32 value = o->pi.owner;

	if (!o->pi.gaddr &&
	    (!o->pi.shared || abi_user_load(o->pi.shared, &value)))
		return 0;
	return abi_thread_find(p, value & FUTEX_TID_MASK);
}

/* Whether waiting for `o` would close a ring; if not, `t` waits from now on. */
static s64 ring_check(struct taker *k, struct abi_thread *o)
{
	struct abi_proc *p = k->p;
	u32 depth;
	s64 rc = 0;

	abi_lock(p, &p->futexes.pi_lock);
	for (depth = 0; o && !rc && depth < ABI_THREADS_MAX; depth++) {
		o = next_owner(p, o);
		if (o == k->t)
			rc = -LINUX_EDEADLK;
	}
	if (!rc)
		k->t->pi.shared = k->gaddr;
	abi_unlock(p, &p->futexes.pi_lock);
	return rc;
}

static void ring_leave(struct taker *k)
{
	abi_lock(k->p, &k->p->futexes.pi_lock);
	k->t->pi.shared = 0;
	abi_unlock(k->p, &k->p->futexes.pi_lock);
}

/* 0: it lives. -EDEADLK, -EAGAIN for a try, -ESRCH. */
static s64 owner_check(struct taker *k, u32 owner)
{
	struct abi_thread *o = abi_thread_find(k->p, owner);

	if (!o && !k->p->host->thread_lives(owner))
		return -LINUX_ESRCH;
	if (k->try)
		return -LINUX_EAGAIN;
	return ring_check(k, o);
}

/* It may have released the word since, as robust futexes are. */
static s64 owner_died(struct taker *k, u32 old)
{
	u32 now;

	if (abi_user_load(k->gaddr, &now))
		return -LINUX_EFAULT;
	return now == old ? -LINUX_ESRCH : MUST_RETRY;
}

/*
 * Takes the word, or marks it as waited for: 0, MUST_WAIT, MUST_RETRY or an
 * error. A thread that waited when the owner died gets the word, as on Linux.
 */
static s64 word_take(struct taker *k)
{
	u32 old, fresh, owner, died = 0;
	s64 rc = 0;
	int done;

	if (abi_user_load(k->gaddr, &old))
		return -LINUX_EFAULT;
	owner = old & FUTEX_TID_MASK;
	if (owner == k->t->tid)
		return -LINUX_EDEADLK;
	if (owner)
		rc = owner_check(k, owner);
	if (rc == -LINUX_ESRCH && k->waited) {
		died = FUTEX_OWNER_DIED;
		owner = 0;
	} else if (rc) {
		return rc == -LINUX_ESRCH ? owner_died(k, old) : rc;
	}
	fresh = old | FUTEX_WAITERS;
	if (!owner)
		fresh = k->t->tid | died | (old & ~FUTEX_TID_MASK) |
			(k->waited ? FUTEX_WAITERS : 0);
	if (fresh != old) {
		done = abi_user_swap(k->gaddr, &old, fresh);
		if (done <= 0)
			return done ? -LINUX_EFAULT : MUST_RETRY;
	}
	k->value = fresh;
	return owner ? MUST_WAIT : 0;
}

static s64 word_await(struct taker *k, u64 deadline)
{
	u64 look = (u64)k->p->host->clock(ABI_CLOCK_MONOTONIC) + LOOK_NS;
	struct abi_futex_op op = {.command = WAIT_BITSET,
				  .value = k->value,
				  .value3 = ABI_FUTEX_ANY,
				  .addr = k->gaddr,
				  .deadline =
					  look < deadline ? look : deadline};
	s64 rc;

	abi_thread_asleep(k->t, 1);
	rc = k->p->host->futex(&op, k->t->index);
	abi_thread_asleep(k->t, 0);
	k->waited = 1;
	if (rc == -LINUX_EINTR)
		return -ABI_ERESTARTNOINTR;
	if (rc == -LINUX_EAGAIN || (rc == -LINUX_ETIMEDOUT && look < deadline))
		return MUST_RETRY;
	return rc ? rc : MUST_RETRY;
}

s64 abi_futex_owned_take(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
			 u64 deadline, u32 try)
{
	struct taker k = {.p = p, .t = t, .gaddr = gaddr, .try = try};
	s64 rc = word_check(p, gaddr);

	if (rc)
		return rc;
	do {
		rc = word_take(&k);
		if (rc == MUST_WAIT)
			rc = word_await(&k, deadline);
	} while (rc == MUST_RETRY);
	if (t->pi.shared)
		ring_leave(&k);
	if (rc == -LINUX_ESRCH && p->info.spawns)
		abi_log_once(p, &p->threads.said_owner,
			     "futex with an owner: no thread of this run has "
			     "the number in its word: returned ESRCH");
	return rc;
}

s64 abi_futex_owned_drop(struct abi_proc *p, struct abi_thread *t, u64 gaddr)
{
	u32 old;
	s64 rc = word_check(p, gaddr);
	int done;

	if (rc)
		return rc;
	if (abi_user_load(gaddr, &old))
		return -LINUX_EFAULT;
	do {
		if ((old & FUTEX_TID_MASK) != t->tid)
			return -LINUX_EPERM;
		done = abi_user_swap(gaddr, &old, 0);
		if (done < 0)
			return -LINUX_EFAULT;
	} while (!done);
	if (old & FUTEX_WAITERS)
		abi_futex_wake_one(p, t, gaddr);
	return 0;
}
