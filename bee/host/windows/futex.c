// SPDX-License-Identifier: MIT
/*
 * host->futex: queues for words in memory that processes share. WaitOnAddress
 * works within a process only, so waiters are entries of a table in a named
 * section, which all bees of the user share. A word's name is what is mapped
 * there and the offset in it. A waiter waits for a named event of its thread.
 *
 * A named mutex guards the table, and is held while a word is compared, so no
 * wake-up is lost. Entries of processes that ended are removed when their event
 * cannot be opened. `count` is also read without the mutex: a waiter increments
 * it before it compares the word, which the waker has changed before, so a
 * waker that reads 0 has nobody to wake.
 */
#include "win.h"
#include "view.h"
#include "abi/include/user.h"
#include <stdio.h>

#define REQUEUE 3
#define CMP_REQUEUE 4
#define WAKE_OP 5
#define WAIT_BITSET 9
#define WAKE_BITSET 10

#define WAITERS 4096
#define COUNTS 256
#define ANY 0xffffffffu
/* A waker that was killed may have set `state` and not the event. */
#define LOOK_MS 1000
#define EVENT_FORMAT L"Local\\skep-bee-futex-1-%llx-%x"

struct word {
	struct win_file_id id;
	u64 offset;
};

enum waiter_state { WAITER_FREE, WAITER_QUEUED, WAITER_WOKEN };

struct waiter {
	u32 state; /* enum waiter_state; atomic */
	u32 thread;
	u64 process; /* random; no process has another's */
	struct word word;
	u32 bitset;
	u64 ticket; /* waiters are woken in this order */
};

struct table {
	u64 ticket;
	u32 count[COUNTS]; /* of waiters, by word; atomic */
	struct waiter waiter[WAITERS];
};

static SRWLOCK lock = SRWLOCK_INIT; /* of the next four */
static struct table *table;
static HANDLE section, mutex;
static u64 self;

/* The table ---------------------------------------------------------------- */

static s64 table_open(void)
{
	if (bee_random(&self, sizeof(self)))
		return -LINUX_ENOMEM;
	table = bee_user_table(L"futex-1", sizeof(*table), &section, &mutex);
	return table ? 0 : -LINUX_ENOMEM;
}

static s64 table_get(void)
{
	static u32 said;
	s64 err = 0;

	AcquireSRWLockExclusive(&lock);
	if (!table)
		err = table_open();
	ReleaseSRWLockExclusive(&lock);
	if (err && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message("a futex in shared memory is refused: the table "
			       "that all bee processes of a user share can't "
			       "be opened");
	return err;
}

/* Each change is complete when a process that is killed abandons the mutex. */
static void table_lock(void)
{
	WaitForSingleObject(mutex, INFINITE);
}

static void table_unlock(void)
{
	ReleaseMutex(mutex);
}

static u32 *count_of(const struct word *w)
{
	u64 hash = (w->id.index ^ w->offset >> 2) * 0x9e3779b97f4a7c15ull;

	return &table->count[hash >> 56];
}

static int is_same(const struct word *a, const struct word *b)
{
	return a->offset == b->offset && bee_file_same(&a->id, &b->id);
}

static int is_word(const struct waiter *w, const struct word *word)
{
	return __atomic_load_n(&w->state, __ATOMIC_SEQ_CST) == WAITER_QUEUED &&
	       is_same(&w->word, word);
}

static s64 word_find(u64 addr, struct word *w)
{
	if (addr % sizeof(u32))
		return -LINUX_EINVAL;
	return bee_view_word(addr, &w->id, &w->offset) ? 0 : -LINUX_EFAULT;
}

/* The word's value; the view may be replaced meanwhile. */
static s64 word_load(u64 addr, u32 *value)
{
	int held = bee_view_hold((void *)addr);
	int rc = abi_user_load(addr, value);

	bee_view_unhold(held);
	return rc;
}

static s64 word_compare(u64 addr, u32 value)
{
	u32 now;

	if (word_load(addr, &now))
		return -LINUX_EFAULT;
	return now == value ? 0 : -LINUX_EAGAIN;
}

/* Waking; the mutex is held ------------------------------------------------ */

static HANDLE event_open(const struct waiter *w)
{
	WCHAR name[64];

	swprintf(name, 64, EVENT_FORMAT, w->process, w->thread);
	return OpenEventW(EVENT_MODIFY_STATE, FALSE, name);
}

static void waiter_remove(struct waiter *w, u32 state)
{
	__atomic_sub_fetch(count_of(&w->word), 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&w->state, state, __ATOMIC_SEQ_CST);
}

/* 1: it is woken. 0: its process has ended. */
static int waiter_wake(struct waiter *w)
{
	HANDLE event = event_open(w);

	if (!event) {
		waiter_remove(w, WAITER_FREE);
		return 0;
	}
	waiter_remove(w, WAITER_WOKEN);
	SetEvent(event);
	CloseHandle(event);
	return 1;
}

static struct waiter *waiter_first(const struct word *word, u32 bitset)
{
	struct waiter *first = NULL, *w;

	for (w = table->waiter; w < table->waiter + WAITERS; w++)
		if (is_word(w, word) && w->bitset & bitset &&
		    (!first || w->ticket < first->ticket))
			first = w;
	return first;
}

/* As on Linux, at least one. */
static s64 wake_some(const struct word *word, u32 count, u32 bitset)
{
	struct waiter *w;
	s64 n = 0;

	while ((w = waiter_first(word, bitset))) {
		n += waiter_wake(w);
		if (n >= (s32)count && n)
			break;
	}
	return n;
}

static s64 count_some(const struct word *word, u32 count)
{
	const struct waiter *w;
	s64 n = 0;

	for (w = table->waiter; w < table->waiter + WAITERS; w++)
		n += is_word(w, word);
	return n < count ? n : count;
}

/* Returns how many; those that move to their own word count too. */
static s64 move_some(const struct word *from, const struct word *to, u32 count)
{
	struct waiter *w;
	s64 n = 0;

	if (is_same(from, to))
		return count_some(from, count);

	for (; n < count && (w = waiter_first(from, ANY)); n++) {
		__atomic_add_fetch(count_of(to), 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(count_of(from), 1, __ATOMIC_SEQ_CST);
		w->word = *to;
	}
	return n;
}

/* Waiting ------------------------------------------------------------------ */

static int event_make(struct win_thread *t)
{
	WCHAR name[64];

	if (!t->shared) {
		swprintf(name, 64, EVENT_FORMAT, self, t->bee.index);
		t->shared = CreateEventW(NULL, FALSE, FALSE, name);
	}
	return t->shared != NULL;
}

static struct waiter *waiter_free(void)
{
	struct waiter *w;
	HANDLE event;

	for (w = table->waiter; w < table->waiter + WAITERS; w++)
		if (!__atomic_load_n(&w->state, __ATOMIC_SEQ_CST))
			return w;
	for (w = table->waiter; w < table->waiter + WAITERS; w++) {
		event = event_open(w);
		if (event) {
			CloseHandle(event);
		} else if (w->state == WAITER_QUEUED) {
			waiter_remove(w, WAITER_FREE);
			return w;
		} else {
			return w;
		}
	}
	return NULL;
}

/* Queues the thread if the word still has its value. */
static s64 wait_begin(const struct abi_futex_op *op, const struct word *word,
		      const struct win_thread *t, struct waiter **to)
{
	static u32 said;
	struct waiter *w = waiter_free();
	s64 rc;

	*to = w;
	if (!w) {
		if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
			bee_os_message("a futex in shared memory is refused "
				       "(EAGAIN): 4096 threads wait at such "
				       "words");
		return -LINUX_EAGAIN;
	}
	__atomic_add_fetch(count_of(word), 1, __ATOMIC_SEQ_CST);
	rc = word_compare(op->addr, op->value);
	if (rc) {
		__atomic_sub_fetch(count_of(word), 1, __ATOMIC_SEQ_CST);
		return rc;
	}
	w->thread = t->bee.index;
	w->process = self;
	w->word = *word;
	w->bitset = op->value3;
	w->ticket = table->ticket++;
	__atomic_store_n(&w->state, WAITER_QUEUED, __ATOMIC_SEQ_CST);
	return 0;
}

static int is_woken(const struct waiter *w)
{
	return __atomic_load_n(&w->state, __ATOMIC_SEQ_CST) == WAITER_WOKEN;
}

static s64 wait_sleep(const struct abi_futex_op *op, struct win_thread *t,
		      const struct waiter *w)
{
	DWORD left;

	while (!is_woken(w)) {
		if (__atomic_exchange_n(&t->kick, 0, __ATOMIC_SEQ_CST))
			return -LINUX_EINTR;
		left = bee_clock_left(op->deadline);
		if (!left)
			return -LINUX_ETIMEDOUT;
		WaitForSingleObject(t->shared, left < LOOK_MS ? left : LOOK_MS);
	}
	return 0;
}

static s64 wait_word(const struct abi_futex_op *op, const struct word *word)
{
	struct win_thread *t = bee_thread_self();
	struct waiter *w;
	s64 rc;

	if (!event_make(t))
		return -LINUX_ENOMEM;
	table_lock();
	rc = wait_begin(op, word, t, &w);
	table_unlock();
	if (rc)
		return rc;
	__atomic_store_n(&t->wake_used, WIN_WAKE_SHARED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->asleep, 1, __ATOMIC_SEQ_CST);
	rc = wait_sleep(op, t, w);
	__atomic_store_n(&t->asleep, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->wake_used, WIN_WAKE_DOORBELL, __ATOMIC_SEQ_CST);
	table_lock();
	if (is_woken(w)) {
		rc = 0;
		__atomic_store_n(&w->state, WAITER_FREE, __ATOMIC_SEQ_CST);
	} else {
		waiter_remove(w, WAITER_FREE);
	}
	table_unlock();
	return rc;
}

/* The calls ----------------------------------------------------------------
 */

static s64 requeue_word(const struct abi_futex_op *op, const struct word *from,
			const struct word *to)
{
	s64 n = 0, rc = 0;

	if ((s32)op->value < 0 || (s32)op->count < 0)
		return -LINUX_EINVAL;
	table_lock();
	if (op->command == CMP_REQUEUE)
		rc = word_compare(op->addr, op->value3);
	if (!rc && op->value)
		n = wake_some(from, op->value, ANY);
	if (!rc)
		n += move_some(from, to, op->count);
	table_unlock();
	return rc ? rc : n;
}

static s64 wake_two(const struct abi_futex_op *op, const struct word *word,
		    const struct word *second)
{
	int held;
	s64 rc, n;

	table_lock();
	held = bee_view_hold((void *)op->second);
	rc = abi_futex_word(op->second, op->value3);
	bee_view_unhold(held);
	n = rc < 0 ? rc : wake_some(word, op->value, ANY);
	if (rc > 0)
		n += wake_some(second, op->count, ANY);
	table_unlock();
	return n;
}

static s64 wake_word(const struct abi_futex_op *op, const struct word *word)
{
	s64 n;

	if (!__atomic_load_n(count_of(word), __ATOMIC_SEQ_CST))
		return 0;
	table_lock();
	n = wake_some(word, op->value, op->value3);
	table_unlock();
	return n;
}

s64 bee_futex(const struct abi_futex_op *op, u32 thread)
{
	struct word word, second;
	s64 rc = table_get();

	(void)thread;
	if (!rc)
		rc = word_find(op->addr, &word);
	if (rc)
		return rc;
	switch (op->command) {
	case WAIT_BITSET:
		return op->value3 ? wait_word(op, &word) : -LINUX_EINVAL;
	case WAKE_BITSET:
		return op->value3 ? wake_word(op, &word) : -LINUX_EINVAL;
	}
	rc = word_find(op->second, &second);
	if (rc)
		return rc;
	return op->command == WAKE_OP ? wake_two(op, &word, &second)
				      : requeue_word(op, &word, &second);
}
