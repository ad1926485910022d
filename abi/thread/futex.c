/* SPDX-License-Identifier: MIT */
/*
 * Futexes: futex(2). For words in memory that other processes share the host's
 * queues are used (abi_host.futex), if it has them; all other threads wait
 * here.
 *
 * A bucket's lock guards its list, the entries in it (struct abi_futex_wait)
 * and the comparison of the guest's word. Two buckets are locked in the order
 * of their index. No other lock is taken while one is held.
 *
 * Why no wake-up is lost: a waiter compares and queues itself under the lock. A
 * waker changed the word before its call. So either it finds the waiter in the
 * list, or the waiter gets the lock after the waker and sees the changed word.
 * A waker first clears `queued` and then leaves the park token; the waiter
 * reads `queued` after every park. Whether a waiter was woken or gave up is
 * decided once, under the lock, so counts are exact.
 */
#include "futex.h"
#include "lock.h"
#include "thread.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/signal/signal.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/time/time.h"

#define WAIT 0
#define WAKE 1
#define REQUEUE 3
#define CMP_REQUEUE 4
#define WAKE_OP 5
#define LOCK_PI 6
#define UNLOCK_PI 7
#define TRYLOCK_PI 8
#define WAIT_BITSET 9
#define WAKE_BITSET 10
#define WAIT_REQUEUE_PI 11
#define CMP_REQUEUE_PI 12
#define LOCK_PI2 13
#define PRIVATE 128
#define CLOCK_REALTIME 256
#define COMMAND 0x7f

/* Sets of operations: those that wait, those on one word, those of a host. */
#define WAITS (1u << WAIT | 1u << WAIT_BITSET)
#define ONE_WORD (WAITS | 1u << WAKE | 1u << WAKE_BITSET)
#define HOSTS (ONE_WORD | 1u << REQUEUE | 1u << CMP_REQUEUE | 1u << WAKE_OP)

#define OWNED                                                                  \
	(1u << LOCK_PI | 1u << UNLOCK_PI | 1u << TRYLOCK_PI | 1u << LOCK_PI2)

#define BATCH 32

/* Threads to unpark when the locks are released. */
struct wake_list {
	struct abi_proc *p;
	u32 count;
	struct abi_thread *thread[BATCH];
};

static u32 bucket_of(u64 gaddr)
{
	return (u32)((gaddr >> 2) * 0x9e3779b97f4a7c15ull >> 56);
}

static struct abi_futex_bucket *bucket_at(struct abi_proc *p, u32 index)
{
	return &p->futexes.bucket[index];
}

int abi_futexes_init(struct abi_proc *p)
{
	u32 i;

	_Static_assert(ABI_FUTEX_BUCKETS == 256, "bucket_of gives 8 bits");
	for (i = 0; i < ABI_FUTEX_BUCKETS; i++) {
		bucket_at(p, i)->head = ABI_NONE;
		bucket_at(p, i)->tail = ABI_NONE;
	}
	return 0;
}

/* Lists; the bucket's lock is held --------------------------------------- */

static void list_add(struct abi_proc *p, u32 index, struct abi_thread *t)
{
	struct abi_futex_bucket *b = bucket_at(p, index);

	abi_assert_locked(&b->lock);
	t->futex.next = ABI_NONE;
	t->futex.prev = b->tail;
	if (b->tail == ABI_NONE)
		b->head = t->index;
	else
		abi_thread_get(p, b->tail)->futex.next = t->index;
	b->tail = t->index;
	__atomic_store_n(&t->futex.bucket, index, __ATOMIC_RELAXED);
}

static void list_del(struct abi_proc *p, u32 index, struct abi_thread *t)
{
	struct abi_futex_bucket *b = bucket_at(p, index);
	u32 next = t->futex.next, prev = t->futex.prev;

	abi_assert_locked(&b->lock);
	if (prev == ABI_NONE)
		b->head = next;
	else
		abi_thread_get(p, prev)->futex.next = next;
	if (next == ABI_NONE)
		b->tail = prev;
	else
		abi_thread_get(p, next)->futex.prev = prev;
}

static void lock_two(struct abi_proc *p, u32 a, u32 b)
{
	abi_lock(p, &bucket_at(p, a < b ? a : b)->lock);
	if (a != b)
		abi_lock(p, &bucket_at(p, a < b ? b : a)->lock);
}

static void drop_two(struct abi_proc *p, u32 a, u32 b)
{
	abi_unlock(p, &bucket_at(p, a)->lock);
	if (a != b)
		abi_unlock(p, &bucket_at(p, b)->lock);
}

static void wake_one(struct wake_list *list, u32 index, struct abi_thread *t)
{
	list_del(list->p, index, t);
	__atomic_store_n(&t->futex.queued, 0, __ATOMIC_SEQ_CST);
	/*
	 * From now on the waiter may run, and even exit: a token that its
	 * index's next owner finds only makes that thread check again.
	 */
	if (list->count < BATCH)
		list->thread[list->count++] = t;
	else
		abi_thread_unpark(list->p, t);
}

static void wake_flush(struct wake_list *list)
{
	u32 i;

	for (i = 0; i < list->count; i++)
		abi_thread_unpark(list->p, list->thread[i]);
}

/* Wakes at least one matching waiter, as Linux does for a count below 1. */
static s64 wake_some(struct wake_list *list, u32 index, u64 gaddr, s32 count,
		     u32 bitset)
{
	struct abi_thread *t;
	s64 woken = 0;
	u32 at, next;

	for (at = bucket_at(list->p, index)->head; at != ABI_NONE; at = next) {
		t = abi_thread_get(list->p, at);
		next = t->futex.next;
		if (t->futex.key != gaddr || !(t->futex.bitset & bitset))
			continue;
		wake_one(list, index, t);
		if (++woken >= count)
			break;
	}
	return woken;
}

/* Words that other processes share ------------------------------------------
 */

/* Whether the host maps the memory of this word for other processes too. */
static int word_shared(struct abi_proc *p, u64 gaddr, struct abi_area *a)
{
	const u32 file = ABI_AREA_SHARED | ABI_AREA_DIRECT;

	return abi_space_next(p, gaddr, a) && a->start <= gaddr &&
	       ((a->bits & file) == file || abi_space_is_common(p, a));
}

/* Whether this operation uses the host's queues. */
static int word_hosts(struct abi_proc *p, u64 gaddr, u32 op)
{
	struct abi_area a;

	return p->host->futex && !(op & PRIVATE) && word_shared(p, gaddr, &a);
}

s64 abi_futex_wake_one(struct abi_proc *p, struct abi_thread *t, u64 gaddr)
{
	struct abi_futex_op op = {.command = WAKE_BITSET,
				  .value = 1,
				  .value3 = ABI_FUTEX_ANY,
				  .addr = gaddr};

	if (word_hosts(p, gaddr, 0))
		return p->host->futex(&op, t->index);
	return abi_futex_wake(p, gaddr, 1, ABI_FUTEX_ANY);
}

/* Logs once that other processes do not wake waiters at this word. */
static void say_unshared(struct abi_proc *p, u64 gaddr)
{
	struct abi_area a;

	if (!__atomic_load_n(&p->threads.said_shared, __ATOMIC_RELAXED) &&
	    word_shared(p, gaddr, &a) &&
	    (a.backing ||
	     (abi_forks(p) && __atomic_load_n(&p->forked, __ATOMIC_RELAXED))))
		abi_log_once(p, &p->threads.said_shared,
			     "futex in memory that processes share: a wait "
			     "there is woken by its own process only");
}

/* Operations -------------------------------------------------------------- */

static s64 word_check(struct abi_proc *p, u64 gaddr, u32 prot)
{
	if (gaddr % 4)
		return -LINUX_EINVAL;
	return abi_user_check(p, gaddr, 4, prot);
}

/* 0 if the word is `value`, else -EAGAIN or -EFAULT. */
static s64 word_is(u64 gaddr, u32 value)
{
	u32 now;

	if (abi_user_load(gaddr, &now))
		return -LINUX_EFAULT;
	return now == value ? 0 : -LINUX_EAGAIN;
}

static int still_queued(struct abi_thread *t)
{
	return (int)__atomic_load_n(&t->futex.queued, __ATOMIC_SEQ_CST);
}

/* 1: `t` was removed from its queue; 0: another thread had woken it. */
static int withdraw_waiter(struct abi_proc *p, struct abi_thread *t)
{
	u32 index;
	int ours = 0, moved;

	do {
		index = __atomic_load_n(&t->futex.bucket, __ATOMIC_RELAXED);
		abi_lock(p, &bucket_at(p, index)->lock);
		moved = still_queued(t) && t->futex.bucket != index;
		if (still_queued(t) && !moved) {
			list_del(p, index, t);
			t->futex.queued = 0;
			ours = 1;
		}
		abi_unlock(p, &bucket_at(p, index)->lock);
	} while (moved);
	return ours;
}

static s64 enqueue_waiter(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
			  u32 value, u32 bitset)
{
	u32 index = bucket_of(gaddr);
	s64 rc;

	abi_lock(p, &bucket_at(p, index)->lock);
	rc = word_is(gaddr, value);
	if (!rc) {
		t->futex.key = gaddr;
		t->futex.bitset = bitset;
		t->futex.queued = 1;
		list_add(p, index, t);
	}
	abi_unlock(p, &bucket_at(p, index)->lock);
	return rc;
}

s64 abi_futex_wait(struct abi_proc *p, struct abi_thread *t, u64 gaddr,
		   u32 value, u32 bitset, u64 deadline)
{
	s64 rc;

	if (!bitset)
		return -LINUX_EINVAL;
	rc = word_check(p, gaddr, ABI_PROT_READ);
	if (rc)
		return rc;
	rc = enqueue_waiter(p, t, gaddr, value, bitset);
	if (rc)
		return rc;
	while (still_queued(t)) {
		rc = abi_thread_park(p, t, deadline, 1);
		if (rc && still_queued(t) && withdraw_waiter(p, t))
			return rc;
	}
	return 0;
}

s64 abi_futex_wake(struct abi_proc *p, u64 gaddr, u32 count, u32 bitset)
{
	struct wake_list list = {p, 0, {0}};
	u32 index = bucket_of(gaddr);
	s64 woken;

	if (!bitset)
		return -LINUX_EINVAL;
	abi_lock(p, &bucket_at(p, index)->lock);
	woken = wake_some(&list, index, gaddr, (s32)count, bitset);
	abi_unlock(p, &bucket_at(p, index)->lock);
	wake_flush(&list);
	return woken;
}

struct requeue {
	u64 from, to;
	s32 wake, move;
	const u32 *expect; /* or NULL */
};

/* The caller holds both locks. Returns how many were woken or moved. */
static s64 requeue_some(struct wake_list *list, const struct requeue *r)
{
	struct abi_proc *p = list->p;
	u32 a = bucket_of(r->from), b = bucket_of(r->to), at, next;
	struct abi_thread *t;
	s64 done = 0;

	abi_assert_locked(&bucket_at(p, b)->lock);
	abi_assert_locked(&bucket_at(p, a)->lock);
	for (at = bucket_at(p, a)->head; at != ABI_NONE; at = next) {
		if (done - r->wake >= r->move)
			break;
		t = abi_thread_get(p, at);
		next = t->futex.next;
		if (t->futex.key != r->from)
			continue;
		if (++done <= r->wake) {
			wake_one(list, a, t);
		} else if (r->from != r->to) {
			list_del(p, a, t);
			t->futex.key = r->to;
			list_add(p, b, t);
		}
	}
	return done;
}

static s64 requeue_waiters(struct abi_proc *p, const struct requeue *r)
{
	struct wake_list list = {p, 0, {0}};
	u32 a = bucket_of(r->from), b = bucket_of(r->to);
	s64 rc;

	if (r->wake < 0 || r->move < 0)
		return -LINUX_EINVAL;
	rc = word_check(p, r->from, ABI_PROT_READ);
	if (!rc)
		rc = word_check(p, r->to, ABI_PROT_READ);
	if (rc)
		return rc;
	lock_two(p, a, b);
	if (r->expect)
		rc = word_is(r->from, *r->expect);
	if (!rc)
		rc = requeue_some(&list, r);
	drop_two(p, a, b);
	wake_flush(&list);
	return rc;
}

static s32 sign_extend12(u32 value)
{
	return (s32)(value << 20) >> 20;
}

/* futex(2), FUTEX_WAKE_OP: the new value of the second word. */
static s64 op_apply(u32 op, u32 old, u32 *fresh)
{
	u32 arg = (u32)sign_extend12(op >> 12 & 0xfff);

	if (op >> 31)
		arg = 1u << (arg & 31);
	switch (op >> 28 & 7) {
	case 0:
		*fresh = arg;
		return 0;
	case 1:
		*fresh = old + arg;
		return 0;
	case 2:
		*fresh = old | arg;
		return 0;
	case 3:
		*fresh = old & ~arg;
		return 0;
	case 4:
		*fresh = old ^ arg;
		return 0;
	}
	return -LINUX_ENOSYS;
}

static s64 op_compare(u32 op, u32 old)
{
	s32 arg = sign_extend12(op & 0xfff), value = (s32)old;

	switch (op >> 24 & 15) {
	case 0:
		return value == arg;
	case 1:
		return value != arg;
	case 2:
		return value < arg;
	case 3:
		return value <= arg;
	case 4:
		return value > arg;
	case 5:
		return value >= arg;
	}
	return -LINUX_ENOSYS;
}

s64 abi_futex_word(u64 gaddr, u32 op)
{
	u32 old, fresh;
	s64 rc = abi_user_load(gaddr, &old);

	while (!rc) {
		rc = op_apply(op, old, &fresh);
		if (!rc)
			rc = abi_user_swap(gaddr, &old, fresh);
	}
	return rc < 0 ? rc : op_compare(op, old);
}

static s64 wake_op(struct abi_proc *p, const u64 *a)
{
	struct wake_list list = {p, 0, {0}};
	u32 one = bucket_of(a[0]), two = bucket_of(a[4]);
	s64 rc, woken;

	rc = word_check(p, a[0], ABI_PROT_READ);
	if (!rc)
		rc = word_check(p, a[4], ABI_PROT_READ | ABI_PROT_WRITE);
	if (rc)
		return rc;
	lock_two(p, one, two);
	rc = abi_futex_word(a[4], (u32)a[5]);
	woken = rc;
	if (rc >= 0)
		woken = wake_some(&list, one, a[0], (s32)a[2], ABI_FUTEX_ANY);
	if (rc > 0)
		woken += wake_some(&list, two, a[4], (s32)a[3], ABI_FUTEX_ANY);
	drop_two(p, one, two);
	wake_flush(&list);
	return woken;
}

/* The system call ---------------------------------------------------------- */

/* The deadline of a WAIT (relative) or WAIT_BITSET (absolute). */
static s64 deadline_get(struct abi_call *c, u64 *deadline)
{
	u32 op = (u32)c->a[1];
	s64 rc;

	*deadline = ABI_FOREVER;
	if (!c->a[3])
		return 0;
	rc = abi_time_get(c->p, c->a[3], deadline);
	if (rc)
		return rc;
	if ((op & COMMAND) == WAIT)
		*deadline = abi_thread_deadline(c, *deadline);
	else if (op & CLOCK_REALTIME)
		*deadline = abi_time_real(c->p, *deadline);
	return 0;
}

static s64 refuse_second(struct abi_call *c)
{
	abi_log_once(c->p, &c->p->threads.said_shared,
		     "futex of two words, of which processes share one only: "
		     "returned EINVAL");
	return -LINUX_EINVAL;
}

/* An operation on words that other processes share. */
static s64 host_call(struct abi_call *c, u64 deadline)
{
	u32 command = (u32)c->a[1] & COMMAND;
	struct abi_futex_op op = {.command = command,
				  .value = (u32)c->a[2],
				  .value3 = (u32)c->a[5],
				  .addr = c->a[0],
				  .deadline = deadline};

	if (command == WAIT || command == WAKE) {
		op.command += WAIT_BITSET - WAIT;
		op.value3 = ABI_FUTEX_ANY;
	}
	if (!(1u << command & ONE_WORD)) {
		op.count = (u32)c->a[3];
		op.second = c->a[4];
		if (!word_hosts(c->p, op.second, 0))
			return refuse_second(c);
	}
	return c->p->host->futex(&op, c->t->index);
}

static s64 wait_call(struct abi_call *c, u32 bitset, int hosts)
{
	u64 deadline;
	s64 rc = deadline_get(c, &deadline);

	if (rc)
		return rc;
	abi_thread_asleep(c->t, (u32)hosts);
	if (hosts)
		rc = host_call(c, deadline);
	else
		rc = abi_futex_wait(c->p, c->t, c->a[0], (u32)c->a[2], bitset,
				    deadline);
	abi_thread_asleep(c->t, 0);
	if (rc == -LINUX_EINTR)
		rc = c->a[3] ? -ABI_ERESTARTBLOCK : -ABI_ERESTARTSYS;
	return rc;
}

static s64 wake_call(struct abi_call *c, u32 bitset)
{
	/* the map is not checked: programs wake words that were unmapped */
	if (c->a[0] % 4)
		return -LINUX_EINVAL;
	return abi_futex_wake(c->p, c->a[0], (u32)c->a[2], bitset);
}

static s64 refuse_requeue(struct abi_call *c)
{
	struct abi_threads *all = &c->p->threads;

	if (!__atomic_exchange_n(&all->said_pi, 1, __ATOMIC_RELAXED))
		c->p->host->log("futex: FUTEX_WAIT_REQUEUE_PI and "
				"FUTEX_CMP_REQUEUE_PI are not supported: "
				"returned ENOSYS");
	return -LINUX_ENOSYS;
}

/* LOCK_PI's timeout is on CLOCK_REALTIME, LOCK_PI2's on the clock in its
 * flags. */
static s64 pi_call(struct abi_call *c, int hosts)
{
	u32 op = (u32)c->a[1], command = op & COMMAND;
	u64 deadline = ABI_FOREVER;
	s64 rc;

	if (command == UNLOCK_PI)
		return hosts ? abi_futex_owned_drop(c->p, c->t, c->a[0])
			     : abi_futex_pi_drop(c->p, c->t, c->a[0]);
	if (command != TRYLOCK_PI && c->a[3]) {
		rc = abi_time_get(c->p, c->a[3], &deadline);
		if (rc)
			return rc;
		if (command == LOCK_PI || op & CLOCK_REALTIME)
			deadline = abi_time_real(c->p, deadline);
	}
	return hosts ? abi_futex_owned_take(c->p, c->t, c->a[0], deadline,
					    command == TRYLOCK_PI)
		     : abi_futex_pi_take(c->p, c->t, c->a[0], deadline,
					 command == TRYLOCK_PI);
}

static s64 own_call(struct abi_call *c)
{
	u32 command = (u32)c->a[1] & COMMAND;
	u32 expect = (u32)c->a[5];
	struct requeue r = {c->a[0], c->a[4], (s32)c->a[2], (s32)c->a[3], 0};

	switch (command) {
	case LOCK_PI:
	case LOCK_PI2:
	case TRYLOCK_PI:
	case UNLOCK_PI:
		return pi_call(c, 0);
	case WAIT_REQUEUE_PI:
	case CMP_REQUEUE_PI:
		return refuse_requeue(c);
	case WAIT:
		return wait_call(c, ABI_FUTEX_ANY, 0);
	case WAIT_BITSET:
		return wait_call(c, expect, 0);
	case WAKE:
		return wake_call(c, ABI_FUTEX_ANY);
	case WAKE_BITSET:
		return wake_call(c, expect);
	case CMP_REQUEUE:
		r.expect = &expect;
		return requeue_waiters(c->p, &r);
	case REQUEUE:
		return requeue_waiters(c->p, &r);
	case WAKE_OP:
		return wake_op(c->p, c->a);
	}
	return -LINUX_ENOSYS;
}

s64 abi_sys_futex(struct abi_call *c)
{
	u32 op = (u32)c->a[1], command = op & COMMAND;

	if (op & CLOCK_REALTIME && command != WAIT_BITSET &&
	    command != WAIT_REQUEUE_PI && command != LOCK_PI2)
		return -LINUX_ENOSYS;
	if (command > LOCK_PI2)
		return -LINUX_ENOSYS;
	if (1u << command & HOSTS && word_hosts(c->p, c->a[0], op))
		return 1u << command & WAITS ? wait_call(c, (u32)c->a[5], 1)
					     : host_call(c, ABI_FOREVER);
	if (1u << command & OWNED && c->p->host->thread_lives &&
	    word_hosts(c->p, c->a[0], op))
		return pi_call(c, 1);
	if (!(op & PRIVATE))
		say_unshared(c->p, c->a[0]);
	return own_call(c);
}
