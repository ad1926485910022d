/* SPDX-License-Identifier: MIT */
/*
 * Robust futexes, get_robust_list(2): what a thread's end marks and wakes. A
 * thread that ends walks its own list. If all threads end without abi, the host
 * calls abi_robust_dead from outside. Owns threads.shares, .robust and
 * .watched, which are atomic.
 */
#include "robust.h"
#include "word.h"
#include "abi/include/user.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"

/* As on Linux: the list may be circular, or hostile. */
#define ROBUST_MAX 2048

struct walk {
	struct abi_proc *p;
	struct abi_thread *t;
	abi_robust_wake wake;
	void (*wake_dead)(u64 gaddr); /* not NULL: all threads are dead */
};

/*
 * The map cannot be asked when all threads are dead, because one of them may
 * hold its lock. Accesses that fail return, and bee's own memory is above.
 */
static int is_usable(const struct walk *w, u64 gaddr, u64 len, u32 prot)
{
	if (w->wake_dead)
		return gaddr < SKEP_MMAP_END - len;
	return !abi_user_check(w->p, gaddr, len, prot);
}

static int list_read(const struct walk *w, void *to, u64 gaddr, u64 len)
{
	return is_usable(w, gaddr, len, ABI_PROT_READ) &&
	       !abi_user_move(to, abi_user_ptr(gaddr), len);
}

static void wake_waiter(const struct walk *w, u64 gaddr)
{
	if (w->wake_dead)
		w->wake_dead(gaddr);
	else
		w->wake(w->p, w->t, gaddr);
}

/*
 * Marks a lock word that the dead thread owned, and wakes one waiter. A word
 * with an owner was already passed on by abi_futex_pi_end. 0: as on Linux the
 * rest of the list is left as it is.
 */
static int mark_word(const struct walk *w, u64 gaddr, int pending)
{
	u32 old, fresh;
	int done;

	if (gaddr % 4 ||
	    !is_usable(w, gaddr, 4, ABI_PROT_READ | ABI_PROT_WRITE) ||
	    abi_user_load(gaddr, &old))
		return 0;
	if (pending && !old) {
		/* it died between unlocking and waking the next waiter */
		wake_waiter(w, gaddr);
		return 1;
	}
	do {
		if ((old & FUTEX_TID_MASK) != w->t->tid)
			return 1;
		fresh = (old & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
		done = abi_user_swap(gaddr, &old, fresh);
		if (done < 0)
			return 0;
	} while (!done);
	if (old & FUTEX_WAITERS)
		wake_waiter(w, gaddr);
	return 1;
}

/* Bit 0 of a pointer says that the lock is a PI lock. */
static void walk_list(const struct walk *w)
{
	u64 head[3]; /* next, offset of the lock word, pending */
	u64 entry, next;
	int more;
	u32 i;

	if (!w->t->robust_head ||
	    !list_read(w, head, w->t->robust_head, sizeof(head)))
		return;
	entry = head[0] & ~1ull;
	for (i = 0; i < ROBUST_MAX && entry != w->t->robust_head; i++) {
		more = list_read(w, &next, entry, sizeof(next));
		if (entry != (head[2] & ~1ull) &&
		    !mark_word(w, entry + head[1], 0))
			return;
		if (!more)
			return;
		entry = next & ~1ull;
	}
	if (head[2] & ~1ull)
		(void)mark_word(w, (head[2] & ~1ull) + head[1], 1);
}

void abi_robust_walk(struct abi_proc *p, struct abi_thread *t,
		     abi_robust_wake wake)
{
	struct walk w = {p, t, wake, 0};

	walk_list(&w);
}

void abi_robust_dead(struct abi_proc *p, void (*wake)(u64 gaddr))
{
	struct walk w = {p, 0, 0, wake};
	u32 i, n = __atomic_load_n(&p->threads.high, __ATOMIC_ACQUIRE);

	for (i = 0; i < n && i < ABI_THREADS_MAX; i++) {
		w.t = &p->threads.thread[i];
		if (w.t->state == ABI_THREAD_LIVE)
			walk_list(&w);
	}
}

/* Whichever of the two comes second sees the other. */
static void watch_ends(struct abi_proc *p)
{
	struct abi_threads *all = &p->threads;

	if (!p->host->robust ||
	    !__atomic_load_n(&all->shares, __ATOMIC_SEQ_CST) ||
	    !__atomic_load_n(&all->robust, __ATOMIC_SEQ_CST) ||
	    __atomic_exchange_n(&all->watched, 1, __ATOMIC_SEQ_CST))
		return;
	if (p->host->robust())
		abi_log_once(p, &all->said_robust,
			     "robust mutexes in shared memory: if this process "
			     "is killed, those that it holds stay locked");
}

void abi_robust_listed(struct abi_proc *p)
{
	if (!__atomic_load_n(&p->threads.robust, __ATOMIC_RELAXED))
		__atomic_store_n(&p->threads.robust, 1, __ATOMIC_SEQ_CST);
	watch_ends(p);
}

void abi_robust_shared(struct abi_proc *p)
{
	if (!__atomic_load_n(&p->threads.shares, __ATOMIC_RELAXED))
		__atomic_store_n(&p->threads.shares, 1, __ATOMIC_SEQ_CST);
	watch_ends(p);
}
