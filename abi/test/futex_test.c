/* SPDX-License-Identifier: MIT */
/* Futexes: exact counts, every operation, no lost wake-up, no needless call. */
#include <string.h>
#include <sys/mman.h>

#include "abi/uapi/linux.h"
#include "guest.h"

#define WAIT 0
#define WAKE 1
#define REQUEUE 3
#define CMP_REQUEUE 4
#define WAKE_OP 5
#define LOCK_PI 6
#define UNLOCK_PI 7
#define TRYLOCK_PI 8
#define LOCK_PI2 13
#define WAIT_BITSET 9
#define WAKE_BITSET 10
#define REALTIME 256
#define PRIVATE 128
#define WAITERS 5

static u32 host_calls;
static s64 (*real_wait)(u32 *word, u32 expect, u64 deadline);
static void (*real_wake)(u32 *word, u32 count);

static s64 count_wait(u32 *word, u32 expect, u64 deadline)
{
	__atomic_add_fetch(&host_calls, 1, __ATOMIC_RELAXED);
	return real_wait(word, expect, deadline);
}

static void count_wake(u32 *word, u32 count)
{
	__atomic_add_fetch(&host_calls, 1, __ATOMIC_RELAXED);
	real_wake(word, count);
}

static u32 *word_at(u64 gaddr)
{
	return (u32 *)gaddr;
}

struct waiter {
	u32 index;
	u32 op, value, bitset;
	u64 gaddr;
	s64 result;
	u32 done;
	pthread_t id;
};

static struct waiter waiter[WAITERS];

static void *wait_main(void *arg)
{
	struct waiter *w = arg;

	w->result = CALL_AT(w->index, futex, w->gaddr, w->op, w->value, 0, 0,
			    w->bitset);
	__atomic_store_n(&w->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static u32 count_queued(u64 gaddr)
{
	u32 i, n = 0;

	for (i = 0; i < ABI_THREADS_MAX; i++)
		n += __atomic_load_n(&p->threads.thread[i].futex.queued,
				     __ATOMIC_SEQ_CST) &&
		     p->threads.thread[i].futex.key == gaddr;
	return n;
}

/* Starts `count` waiters on gaddr, one after another. */
static void waiters_start(u32 count, u64 gaddr, u32 op)
{
	u32 i;

	for (i = 0; i < count; i++) {
		waiter[i] = (struct waiter){.op = op, .gaddr = gaddr};
		waiter[i].index = guest_thread()->index;
		waiter[i].bitset = 1u << i;
		pthread_create(&waiter[i].id, NULL, wait_main, &waiter[i]);
		TAP(WAIT_FOR(count_queued(gaddr) == i + 1));
	}
}

static u32 waiters_done(u32 count)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++)
		n += __atomic_load_n(&waiter[i].done, __ATOMIC_SEQ_CST);
	return n;
}

static void waiters_join(u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		pthread_join(waiter[i].id, NULL);
		abi_thread_undo(p, abi_thread_get(p, waiter[i].index));
	}
}

static void test_errors(void)
{
	*word_at(page) = 7;
	host_calls = 0;
	tap_ok(CALL(futex, page, WAIT, 8) == -LINUX_EAGAIN,
	       "a wait for another value fails");
	tap_ok(CALL(futex, page, WAKE, 1) == 0, "a wake without waiter is 0");
	tap_ok(CALL(futex, page, WAKE | PRIVATE, 1) == 0, "private wake");
	tap_ok(host_calls == 0,
	       "private wait and wake need no call to the host");
	TAP(CALL(futex, page + 1, WAIT, 7) == -LINUX_EINVAL);
	TAP(CALL(futex, page + 2, WAKE, 7) == -LINUX_EINVAL);
	TAP(CALL(futex, 0x1000, WAIT, 0) == -LINUX_EFAULT);
	TAP(CALL(futex, ~3ull, WAIT, 0) == -LINUX_EFAULT);
	tap_ok(CALL(futex, 0x1000, WAKE, 1) == 0,
	       "a wake at unmapped memory wakes no thread");
	TAP(CALL(futex, page, WAIT_BITSET, 7, 0, 0, 0) == -LINUX_EINVAL);
	TAP(CALL(futex, page, WAKE_BITSET, 1, 0, 0, 0) == -LINUX_EINVAL);
	TAP(CALL(futex, page, WAIT | REALTIME, 7) == -LINUX_ENOSYS);
	TAP(CALL(futex, page, WAKE | REALTIME, 1) == -LINUX_ENOSYS);
	TAP(CALL(futex, page, 77, 1) == -LINUX_ENOSYS);
	TAP(CALL(futex, page, CMP_REQUEUE, ~0ull, 1, page + 4, 7) ==
	    -LINUX_EINVAL);
	TAP(CALL(futex, page, REQUEUE, 1, ~0ull, page + 4, 7) == -LINUX_EINVAL);
	TAP(CALL(futex, page, CMP_REQUEUE, 1, 1, page + 4, 8) == -LINUX_EAGAIN);
	tap_ok(CALL(futex, page, 11 | PRIVATE) == -LINUX_ENOSYS &&
		       strstr(fake.last_log, "FUTEX_WAIT_REQUEUE_PI"),
	       "requeueing to owned words is refused by name");
}

static void time_at(u64 gaddr, u64 ns)
{
	u64 *ts = (u64 *)gaddr;

	ts[0] = ns / ABI_NS;
	ts[1] = ns % ABI_NS;
}

static void test_timeouts(void)
{
	u64 start = guest_now(ABI_CLOCK_MONOTONIC), took;
	u64 *ts = (u64 *)(page + 64);

	*word_at(page) = 7;
	time_at(page + 64, 20000000);
	tap_ok(CALL(futex, page, WAIT, 7, page + 64) == -LINUX_ETIMEDOUT,
	       "a relative timeout ends the wait");
	took = guest_now(ABI_CLOCK_MONOTONIC) - start;
	tap_ok(took >= 20000000 && took < 5 * ABI_NS,
	       "a relative timeout does not end early");
	time_at(page + 64, guest_now(ABI_CLOCK_MONOTONIC) + 10000000);
	tap_ok(CALL(futex, page, WAIT_BITSET, 7, page + 64, 0, ~0u) ==
		       -LINUX_ETIMEDOUT,
	       "an absolute timeout on the monotonic clock");
	time_at(page + 64, guest_now(ABI_CLOCK_REALTIME) + 10000000);
	start = guest_now(ABI_CLOCK_REALTIME);
	tap_ok(CALL(futex, page, WAIT_BITSET | REALTIME, 7, page + 64, 0,
		    ~0u) == -LINUX_ETIMEDOUT,
	       "an absolute timeout on the wall clock");
	tap_ok(guest_now(ABI_CLOCK_REALTIME) - start < 5 * ABI_NS,
	       "a wall-clock timeout is not measured by the monotonic clock");
	time_at(page + 64, 1);
	tap_ok(CALL(futex, page, WAIT_BITSET, 7, page + 64, 0, ~0u) ==
		       -LINUX_ETIMEDOUT,
	       "an absolute timeout in the past");
	ts[1] = ABI_NS;
	TAP(CALL(futex, page, WAIT, 7, page + 64) == -LINUX_EINVAL);
	ts[0] = ~0ull;
	ts[1] = 0;
	TAP(CALL(futex, page, WAIT, 7, page + 64) == -LINUX_EINVAL);
	TAP(CALL(futex, page, WAIT, 7, 0x1000) == -LINUX_EFAULT);
	tap_ok(!count_queued(page), "no thread stays in a queue");
}

static void test_counts(void)
{
	*word_at(page) = 0;
	waiters_start(WAITERS, page, WAIT);
	TAP(CALL(futex, page + 4, WAKE, 10) == 0);
	tap_ok(CALL(futex, page, WAKE, 2) == 2, "wake 2 of 5 wakes 2");
	tap_ok(WAIT_FOR(waiters_done(WAITERS) == 2) && count_queued(page) == 3,
	       "3 of 5 waiters remain");
	tap_ok(waiter[0].done && waiter[1].done,
	       "the first two waiters were woken");
	tap_ok(CALL(futex, page, WAKE, 0x7fffffff) == 3, "wake all wakes 3");
	waiters_join(WAITERS);
	tap_ok(!waiter[4].result, "a woken wait gives 0");
}

static void test_bitset(void)
{
	waiters_start(WAITERS, page, WAIT_BITSET);
	tap_ok(CALL(futex, page, WAKE_BITSET, 10, 0, 0, 0xa) == 2,
	       "a bitset wakes the waiters that it matches");
	TAP(WAIT_FOR(waiters_done(WAITERS) == 2));
	TAP(waiter[1].done && waiter[3].done);
	TAP(CALL(futex, page, WAKE, 10) == 3);
	waiters_join(WAITERS);
}

static void test_requeue(void)
{
	*word_at(page) = *word_at(page + 4) = 0;
	waiters_start(WAITERS, page, WAIT);
	tap_ok(CALL(futex, page, CMP_REQUEUE, 1, 2, page + 4, 0) == 3,
	       "requeue returns how many it woke and moved");
	TAP(WAIT_FOR(waiters_done(WAITERS) == 1));
	TAP(count_queued(page) == 2 && count_queued(page + 4) == 2);
	tap_ok(CALL(futex, page + 4, WAKE, 10) == 2,
	       "requeued threads wait at the second word");
	TAP(CALL(futex, page, REQUEUE, 0, 10, page) == 2);
	tap_ok(count_queued(page) == 2,
	       "requeue onto the same word moves no thread");
	TAP(CALL(futex, page, WAKE, 10) == 2);
	waiters_join(WAITERS);
}

/* A moved waiter whose time runs out leaves the queue it was moved to. */
static void *timed_main(void *arg)
{
	struct waiter *w = arg;

	w->result = CALL_AT(w->index, futex, w->gaddr, WAIT, 0, page + 64);
	return NULL;
}

static void test_requeue_timeout(void)
{
	struct waiter w = {.gaddr = page};

	w.index = guest_thread()->index;
	time_at(page + 64, 100000000);
	pthread_create(&w.id, NULL, timed_main, &w);
	TAP(WAIT_FOR(count_queued(page) == 1));
	TAP(CALL(futex, page, REQUEUE, 0, 1, page + 0x400) == 1);
	pthread_join(w.id, NULL);
	tap_ok(w.result == -LINUX_ETIMEDOUT && !count_queued(page + 0x400),
	       "a moved waiter still times out");
	TAP(CALL(futex, page + 0x400, WAKE, 1) == 0);
	abi_thread_undo(p, abi_thread_get(p, w.index));
}

/* FUTEX_WAKE_OP against the text of futex(2). */
static u32 model_op(u32 op, u32 old, u32 arg)
{
	const u32 result[] = {arg, old + arg, old | arg, old & ~arg, old ^ arg};

	return result[op];
}

static int model_compare(u32 cmp, s32 old, s32 arg)
{
	const int result[] = {old == arg, old != arg,
			      old<arg, old <= arg, old> arg, old >= arg};

	return result[cmp];
}

static void test_wake_op(void)
{
	u32 op, cmp, shift, bad = 0, n = 0, code, arg;
	s32 old;

	for (op = 0; op < 5; op++)
		for (cmp = 0; cmp < 6; cmp++)
			for (shift = 0; shift < 2; shift++)
				for (old = -3; old <= 3; old++) {
					arg = shift ? 1u << 5 : (u32)-2;
					code = shift << 31 | op << 28 |
					       cmp << 24 |
					       (shift ? 5u : 0xffeu) << 12 |
					       0xfff;
					*word_at(page + 8) = (u32)old;
					bad += CALL(futex, page, WAKE_OP, 1, 1,
						    page + 8, code) != 0;
					bad += *word_at(page + 8) !=
					       model_op(op, (u32)old, arg);
					n++;
				}
	tap_ok(!bad && n == 420, "wake_op computes as the manual says");
	TAP(CALL(futex, page, WAKE_OP, 1, 1, page + 8, 7u << 28) ==
	    -LINUX_ENOSYS);
	TAP(CALL(futex, page, WAKE_OP, 1, 1, page + 8, 9u << 24) ==
	    -LINUX_ENOSYS);
	TAP(CALL(futex, page, WAKE_OP, 1, 1, 0x1000, 0) == -LINUX_EFAULT);
	*word_at(page) = *word_at(page + 8) = 0;
	waiters_start(1, page + 8, WAIT);
	for (cmp = bad = 0; cmp < 6; cmp++) {
		*word_at(page + 8) = 5;
		if (model_compare(cmp, 5, 9))
			continue;
		/* old value 5 is kept by "or 0"; must not wake */
		bad += CALL(futex, page, WAKE_OP, 1, 1, page + 8,
			    2u << 28 | cmp << 24 | 9) != 0;
	}
	tap_ok(!bad, "wake_op does not wake at the second word if its "
		     "comparison is false");
	tap_ok(CALL(futex, page, WAKE_OP, 1, 1, page + 8,
		    2u << 28 | 2u << 24 | 9) == 1,
	       "wake_op wakes at the second word if its comparison is true");
	waiters_join(1);
}

/* Stress ------------------------------------------------------------------- */

#define WORKERS 4
#define ROUNDS 4000

static u32 counter;

static void mutex_take(u32 t, u64 m)
{
	u32 free = 0;

	if (__atomic_compare_exchange_n(word_at(m), &free, 1, 0,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	while (__atomic_exchange_n(word_at(m), 2, __ATOMIC_SEQ_CST))
		CALL_AT(t, futex, m, WAIT | PRIVATE, 2);
}

static void mutex_drop(u32 t, u64 m)
{
	if (__atomic_exchange_n(word_at(m), 0, __ATOMIC_SEQ_CST) == 2)
		CALL_AT(t, futex, m, WAKE | PRIVATE, 1);
}

static void *mutex_main(void *arg)
{
	u32 t = (u32)(u64)arg, i;

	for (i = 0; i < ROUNDS; i++) {
		mutex_take(t, page);
		counter++;
		if (i % 16 == 0)
			sched_yield();
		mutex_drop(t, page);
	}
	return NULL;
}

/* A barrier by broadcast: the last of a round requeues onto a lock word. */
static void *round_main(void *arg)
{
	u32 t = (u32)(u64)arg, i, seen;
	u64 seq = page, arrived = page + 4, gate = page + 8;

	for (i = 0; i < ROUNDS / 4; i++) {
		seen = __atomic_load_n(word_at(seq), __ATOMIC_SEQ_CST);
		if (__atomic_add_fetch(word_at(arrived), 1, __ATOMIC_SEQ_CST) ==
		    WORKERS) {
			*word_at(arrived) = 0;
			__atomic_add_fetch(word_at(seq), 1, __ATOMIC_SEQ_CST);
			CALL_AT(t, futex, seq, REQUEUE, 1, 1000, gate);
			CALL_AT(t, futex, gate, WAKE, 1000);
			continue;
		}
		while (__atomic_load_n(word_at(seq), __ATOMIC_SEQ_CST) == seen)
			CALL_AT(t, futex, seq, WAIT, seen);
	}
	return NULL;
}

static void run_stress(void *(*body)(void *))
{
	pthread_t id[WORKERS];
	u32 i, index[WORKERS];

	memset((void *)page, 0, 64);
	for (i = 0; i < WORKERS; i++) {
		index[i] = guest_thread()->index;
		pthread_create(&id[i], NULL, body, (void *)(u64)index[i]);
	}
	for (i = 0; i < WORKERS; i++) {
		pthread_join(id[i], NULL);
		abi_thread_undo(p, abi_thread_get(p, index[i]));
	}
}

/* Words that processes share ------------------------------------------------
 */

static struct abi_futex_op asked;
static u32 asked_of, host_futexes;
static s64 host_answer;
static u32 *then_word, then_value; /* what another process does meanwhile */
static s64 then_lives;
static s64 owner_lives;

static s64 host_futex(const struct abi_futex_op *op, u32 thread)
{
	asked = *op;
	asked_of = thread;
	host_futexes++;
	if (then_word && host_futexes == 2)
		*then_word = then_value;
	if (host_futexes == 2)
		owner_lives = then_lives;
	return host_answer;
}

static s64 common_memory(const struct abi_mem_file *m)
{
	return mmap((void *)m->addr, m->len, (int)m->prot,
		    MAP_SHARED | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
		       ? -LINUX_ENOMEM
		       : 0;
}

static int asked_for(u32 command, u32 value, u32 count, u32 value3)
{
	return asked.command == command && asked.value == value &&
	       asked.count == count && asked.value3 == value3;
}

static void test_host_operations(u64 shared)
{
	host_answer = 3;
	tap_ok(CALL_AT(0, futex, shared, WAKE, 2) == 3 &&
		       asked_for(WAKE_BITSET, 2, 0, ~0u) &&
		       asked.addr == shared && asked_of == 0,
	       "a wake in shared memory is the host's");
	tap_ok(CALL(futex, shared, WAKE_BITSET, 1, 0, 0, 6) == 3 &&
		       asked_for(WAKE_BITSET, 1, 0, 6),
	       "a wake by bits too");
	tap_ok(CALL(futex, shared, CMP_REQUEUE, 1, 2, shared + 4, 9) == 3 &&
		       asked_for(CMP_REQUEUE, 1, 2, 9) &&
		       asked.second == shared + 4,
	       "a requeue in shared memory is the host's");
	tap_ok(CALL(futex, shared, WAKE_OP, 1, 2, shared + 8, 7) == 3 &&
		       asked_for(WAKE_OP, 1, 2, 7),
	       "a wake with an operation is the host's");
	host_futexes = 0;
	tap_ok(CALL(futex, shared, REQUEUE, 1, 2, page, 0) == -LINUX_EINVAL &&
		       !host_futexes && strstr(fake.last_log, "two words"),
	       "a requeue out of shared memory is refused by name");
}

static void test_host_waits(u64 shared)
{
	u64 *past = (u64 *)(page + 64);

	host_answer = 0;
	past[0] = 5;
	past[1] = 9;
	tap_ok(CALL(futex, shared, WAIT, 4, 0) == 0 &&
		       asked_for(WAIT_BITSET, 4, 0, ~0u) &&
		       asked.deadline == ABI_FOREVER,
	       "a wait in shared memory is the host's");
	tap_ok(CALL(futex, shared, WAIT_BITSET, 4, page + 64, 0, 5) == 0 &&
		       asked_for(WAIT_BITSET, 4, 0, 5) &&
		       asked.deadline == 5000000009ull,
	       "a wait until a time too");
	host_answer = -LINUX_ETIMEDOUT;
	tap_ok(CALL(futex, shared, WAIT, 4, page + 64) == -LINUX_ETIMEDOUT &&
		       asked.deadline > 5000000009ull &&
		       asked.deadline != ABI_FOREVER,
	       "its time out is the host's answer");
}

static void test_own_queues(u64 shared)
{
	host_futexes = 0;
	*word_at(shared) = 0;
	tap_ok(CALL(futex, shared, WAIT | PRIVATE, 1) == -LINUX_EAGAIN &&
		       CALL(futex, shared, WAKE | PRIVATE, 1) == 0 &&
		       CALL(futex, page, WAKE, 1) == 0 && !host_futexes,
	       "private words and private memory stay with abi");
	fake.last_log[0] = 0;
	p->threads.said_shared = 0;
	p->forked = 1;
	tap_ok(CALL(futex, shared, LOCK_PI) == 0 && !host_futexes &&
		       strstr(fake.last_log, "its own process only"),
	       "a lock with an owner in shared memory is named");
	CALL(futex, shared, UNLOCK_PI);
	fake.host.futex = NULL;
	fake.last_log[0] = 0;
	p->threads.said_shared = 0;
	tap_ok(CALL(futex, shared, WAKE, 1) == 0 &&
		       strstr(fake.last_log, "its own process only"),
	       "a host without shared queues is named");
	fake.last_log[0] = 0;
	tap_ok(CALL(futex, shared, WAKE, 1) == 0 && !fake.last_log[0], "once");
	p->forked = 0;
	p->threads.said_shared = 0;
	tap_ok(CALL(futex, shared, WAKE, 1) == 0 && !fake.last_log[0],
	       "but not before there is another process");
}

#define OWNER 99u
#define PI_WAITERS 0x80000000u
#define PI_DIED 0x40000000u

static u32 *released; /* by the owner's end, which takes a moment */

static s64 host_lives(u32 tid)
{
	if (released)
		*released = PI_DIED;
	return tid != OWNER || owner_lives;
}

static void test_owned_free(u64 shared)
{
	u32 *word = word_at(shared);

	*word = host_futexes = 0;
	tap_ok(CALL(futex, shared, LOCK_PI) == 0 && *word == 4242,
	       "a free word in shared memory is taken");
	tap_ok(CALL(futex, shared, LOCK_PI) == -LINUX_EDEADLK &&
		       CALL(futex, shared, TRYLOCK_PI) == -LINUX_EDEADLK,
	       "once");
	tap_ok(CALL(futex, shared, UNLOCK_PI) == 0 && !*word && !host_futexes,
	       "and given back, without a call to the host");
	*word = OWNER;
	tap_ok(CALL(futex, shared, UNLOCK_PI) == -LINUX_EPERM && *word == OWNER,
	       "only its owner gives it back");
	tap_ok(CALL(futex, shared + 1, LOCK_PI) == -LINUX_EINVAL &&
		       CALL(futex, shared + 1, UNLOCK_PI) == -LINUX_EINVAL,
	       "a word in shared memory is aligned");
	owner_lives = 1;
	tap_ok(CALL(futex, shared, TRYLOCK_PI) == -LINUX_EAGAIN &&
		       *word == OWNER && !host_futexes,
	       "a try does not wait for another process");
	*word = PI_WAITERS | PI_DIED;
	tap_ok(CALL(futex, shared, LOCK_PI) == 0 &&
		       *word == (4242 | PI_WAITERS | PI_DIED),
	       "a word keeps its flags when it is taken");
	tap_ok(CALL(futex, shared, UNLOCK_PI) == 0 && !*word &&
		       host_futexes == 1 && asked_for(WAKE_BITSET, 1, 0, ~0u),
	       "one waiter is woken");
}

/* The second wait of two brings the change. */
static s64 wait_owned(u64 shared, u32 op, u64 time, u32 value, s64 lives)
{
	*word_at(shared) = OWNER;
	host_futexes = 0;
	owner_lives = 1;
	then_word = word_at(shared);
	then_value = value;
	then_lives = lives;
	return CALL(futex, shared, op, 0, time);
}

static void test_owned_waits(u64 shared)
{
	u64 *time = (u64 *)(page + 64), now;

	host_answer = -LINUX_ETIMEDOUT;
	now = (u64)fake.host.clock(ABI_CLOCK_MONOTONIC);
	tap_ok(wait_owned(shared, LOCK_PI, 0, 0, 1) == 0 &&
		       *word_at(shared) == (4242 | PI_WAITERS) &&
		       host_futexes == 2,
	       "a waiter takes a word that was given back, and says that "
	       "others may wait");
	tap_ok(asked_for(WAIT_BITSET, OWNER | PI_WAITERS, 0, ~0u) &&
		       asked.deadline > now &&
		       asked.deadline < now + 60 * 1000000000ull,
	       "it sleeps, and looks at the word now and then");
	tap_ok(wait_owned(shared, LOCK_PI, 0, OWNER | PI_WAITERS, 0) == 0 &&
		       *word_at(shared) == (4242 | PI_WAITERS | PI_DIED),
	       "a waiter gets the word of an owner that dies");
	time[0] = 0;
	time[1] = 5;
	tap_ok(wait_owned(shared, LOCK_PI2, page + 64, 0, 1) ==
			       -LINUX_ETIMEDOUT &&
		       asked.deadline == 5 && host_futexes == 1 &&
		       *word_at(shared) == (OWNER | PI_WAITERS),
	       "a wait for another process ends in time");
	host_answer = -LINUX_EFAULT;
	tap_ok(wait_owned(shared, LOCK_PI, 0, 0, 1) == -LINUX_EFAULT,
	       "an error of the host ends it");
	host_answer = -LINUX_EAGAIN;
	tap_ok(wait_owned(shared, LOCK_PI, 0, 0, 1) == 0 && host_futexes == 2,
	       "a word that changes does not");
	host_answer = 0;
	tap_ok(wait_owned(shared, LOCK_PI, 0, 0, 1) == 0 && host_futexes == 2,
	       "nor does a wake");
}

static void test_owned_dead(u64 shared)
{
	u32 *word = word_at(shared);

	owner_lives = 0;
	*word = OWNER;
	tap_ok(CALL(futex, shared, LOCK_PI) == -LINUX_ESRCH &&
		       CALL(futex, shared, TRYLOCK_PI) == -LINUX_ESRCH &&
		       *word == OWNER,
	       "a dead owner is said");
	released = word;
	tap_ok(CALL(futex, shared, LOCK_PI) == 0 && *word == (4242 | PI_DIED),
	       "unless its end releases the word");
	released = NULL;
}

static void test_owned(u64 shared)
{
	fake.host.thread_lives = host_lives;
	test_owned_free(shared);
	test_owned_waits(shared);
	test_owned_dead(shared);
	*word_at(shared) = 0;
	then_word = NULL;
	fake.host.thread_lives = NULL;
}

static void test_shared(void)
{
	u64 shared;

	fake.host.futex = host_futex;
	fake.host.family = fake_family;
	fake.host.mem_file = common_memory;
	shared = (u64)CALL(mmap, 0, 4096, 3, 0x21, ~0ull, 0);
	test_host_operations(shared);
	test_host_waits(shared);
	test_owned(shared);
	test_own_queues(shared);
}

int main(void)
{
	guest_new();
	real_wait = fake.host.wait;
	real_wake = fake.host.wake;
	fake.host.wait = count_wait;
	fake.host.wake = count_wake;
	test_errors();
	test_timeouts();
	test_counts();
	test_bitset();
	test_requeue();
	test_requeue_timeout();
	test_wake_op();
	run_stress(mutex_main);
	tap_ok(counter == WORKERS * ROUNDS, "a mutex made of futexes excludes");
	run_stress(round_main);
	tap_ok(*word_at(page) == ROUNDS / 4, "a barrier loses no wake-up");
	test_shared();
	guest_free();
	return tap_done();
}
