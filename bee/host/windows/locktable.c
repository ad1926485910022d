// SPDX-License-Identifier: MIT
/*
 * The table of file locks; see locktable.h. This file has no state.
 */
#include "locktable.h"
#include "base/errno.h"

static void copy_half(struct locktable_half *to,
		      const struct locktable_half *from)
{
	u32 locks = __atomic_load_n(&from->locks, __ATOMIC_RELAXED);
	u32 waiters = __atomic_load_n(&from->waiters, __ATOMIC_RELAXED), i;

	if (locks > LOCKTABLE_LOCKS)
		locks = LOCKTABLE_LOCKS;
	if (waiters > LOCKTABLE_WAITERS)
		waiters = LOCKTABLE_WAITERS;
	for (i = 0; i < locks; i++)
		to->lock[i] = from->lock[i];
	for (i = 0; i < waiters; i++)
		to->waiter[i] = from->waiter[i];
	to->locks = locks;
	to->waiters = waiters;
}

void locktable_load(struct locktable_half *own, const struct locktable *t)
{
	u32 current = __atomic_load_n(&t->current, __ATOMIC_ACQUIRE) & 1;

	copy_half(own, &t->half[current]);
}

void locktable_store(struct locktable *t, const struct locktable_half *own)
{
	u32 next = !(__atomic_load_n(&t->current, __ATOMIC_RELAXED) & 1);

	copy_half(&t->half[next], own);
	__atomic_store_n(&t->current, next, __ATOMIC_RELEASE);
}

/* Owners and files
 * ----------------------------------------------------------- */

int locktable_same_process(const struct lock_process *a,
			   const struct lock_process *b)
{
	return a->pid == b->pid && a->birth == b->birth;
}

int locktable_same_file(const struct lock_file *a, const struct lock_file *b)
{
	return a->index == b->index &&
	       (a->volume == b->volume || !a->volume || !b->volume);
}

int locktable_same_owner(const struct lock_entry *a, const struct lock_entry *b)
{
	if (a->kind != b->kind)
		return 0;
	return a->kind == ABI_FILELOCK_RECORD
		       ? locktable_same_process(&a->process, &b->process)
		       : a->open == b->open;
}

static int ranges_overlap(const struct lock_entry *a,
			  const struct lock_entry *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/*
 * flock(2) locks are independent of the other two kinds, which conflict with
 * each other.
 */
static int in_the_way(const struct lock_entry *a, const struct lock_entry *want)
{
	return locktable_same_file(&a->file, &want->file) &&
	       ranges_overlap(a, want) && !locktable_same_owner(a, want) &&
	       (a->kind == ABI_FILELOCK_FLOCK) ==
		       (want->kind == ABI_FILELOCK_FLOCK) &&
	       (a->type == ABI_FILELOCK_WRITE ||
		want->type == ABI_FILELOCK_WRITE);
}

const struct lock_entry *locktable_conflict(const struct locktable_half *h,
					    const struct lock_entry *want)
{
	u32 i;

	for (i = 0; i < h->locks; i++)
		if (in_the_way(&h->lock[i], want))
			return &h->lock[i];
	return 0;
}

/* Ranges ------------------------------------------------------------------- */

static s64 lock_add(struct locktable_half *h, const struct lock_entry *e)
{
	if (h->locks >= LOCKTABLE_LOCKS)
		return -LINUX_ENOLCK;
	h->lock[h->locks++] = *e;
	return 0;
}

static void lock_remove(struct locktable_half *h, u32 i)
{
	h->lock[i] = h->lock[--h->locks];
}

/* Removes [want->first, want->last] from one entry that overlaps it. */
static s64 lock_cut(struct locktable_half *h, u32 i,
		    const struct lock_entry *want)
{
	struct lock_entry left = h->lock[i], right = h->lock[i];
	s64 err = 0;

	lock_remove(h, i);
	if (left.first < want->first) {
		left.last = want->first - 1;
		err = lock_add(h, &left);
	}
	if (!err && right.last > want->last) {
		right.first = want->last + 1;
		err = lock_add(h, &right);
	}
	return err;
}

/* Merges adjacent ranges into `e`, so that one range is one entry. */
static void lock_merge(struct locktable_half *h, struct lock_entry *e)
{
	u32 i = 0;

	while (i < h->locks) {
		const struct lock_entry *o = &h->lock[i];

		if (!locktable_same_owner(o, e) || o->type != e->type ||
		    !locktable_same_file(&o->file, &e->file) ||
		    (o->last + 1 != e->first && e->last + 1 != o->first)) {
			i++;
			continue;
		}
		e->first = o->first < e->first ? o->first : e->first;
		e->last = o->last > e->last ? o->last : e->last;
		lock_remove(h, i);
		i = 0;
	}
}

s64 locktable_set(struct locktable_half *h, const struct lock_entry *want)
{
	struct lock_entry e = *want;
	s64 err = 0;
	u32 i = 0;

	/* What a cut leaves does not overlap, so each entry is cut once. */
	while (i < h->locks && !err) {
		if (locktable_same_owner(&h->lock[i], want) &&
		    locktable_same_file(&h->lock[i].file, &want->file) &&
		    ranges_overlap(&h->lock[i], want))
			err = lock_cut(h, i, want);
		else
			i++;
	}
	if (err || want->type == ABI_FILELOCK_NONE)
		return err;
	lock_merge(h, &e);
	return lock_add(h, &e);
}

/* Rings -------------------------------------------------------------------- */

/* Marks the waiters of one process. They are visited later. */
static void ring_reach(const struct locktable_half *h, u8 *seen,
		       const struct lock_process *p)
{
	u32 i;

	for (i = 0; i < h->waiters; i++)
		if (!seen[i] && h->waiter[i].want.kind == ABI_FILELOCK_RECORD &&
		    locktable_same_process(&h->waiter[i].want.process, p))
			seen[i] = 1;
}

/*
 * Returns whether `p` holds record locks that `want` waits for. Marks all
 * processes that hold such locks.
 */
static int ring_step(const struct locktable_half *h, u8 *seen,
		     const struct lock_entry *want,
		     const struct lock_process *p)
{
	u32 i;

	for (i = 0; i < h->locks; i++) {
		if (h->lock[i].kind != ABI_FILELOCK_RECORD ||
		    !in_the_way(&h->lock[i], want))
			continue;
		if (locktable_same_process(&h->lock[i].process, p))
			return 1;
		ring_reach(h, seen, &h->lock[i].process);
	}
	return 0;
}

int locktable_is_ring(const struct locktable_half *h,
		      const struct lock_entry *want)
{
	u8 seen[LOCKTABLE_WAITERS] = {0}; /* 1: to be visited, 2: visited */
	u32 i;

	if (want->kind != ABI_FILELOCK_RECORD)
		return 0;
	(void)ring_step(h, seen, want, &want->process);
	for (i = 0; i < h->waiters; i++) {
		if (seen[i] != 1)
			continue;
		seen[i] = 2;
		if (ring_step(h, seen, &h->waiter[i].want, &want->process))
			return 1;
		i = (u32)-1; /* an earlier entry may have been marked */
	}
	return 0;
}

/* Waiters, and dead processes ------------------------------------------ */

s64 locktable_wait(struct locktable_half *h, const struct lock_waiter *w)
{
	if (h->waiters >= LOCKTABLE_WAITERS)
		return -LINUX_ENOLCK;
	h->waiter[h->waiters++] = *w;
	return 0;
}

void locktable_unwait(struct locktable_half *h, const struct lock_waiter *w)
{
	u32 i;

	for (i = 0; i < h->waiters; i++)
		if (h->waiter[i].thread == w->thread &&
		    locktable_same_process(&h->waiter[i].want.process,
					   &w->want.process))
			h->waiter[i--] = h->waiter[--h->waiters];
}

u32 locktable_drop_process(struct locktable_half *h,
			   const struct lock_process *p)
{
	u32 i, had = h->locks + h->waiters;

	for (i = 0; i < h->locks; i++)
		if (h->lock[i].kind == ABI_FILELOCK_RECORD &&
		    locktable_same_process(&h->lock[i].process, p))
			lock_remove(h, i--);
	for (i = 0; i < h->waiters; i++)
		if (locktable_same_process(&h->waiter[i].want.process, p))
			h->waiter[i--] = h->waiter[--h->waiters];
	return had - h->locks - h->waiters;
}

u32 locktable_drop_open(struct locktable_half *h, u64 open)
{
	u32 i, had = h->locks;

	for (i = 0; i < h->locks; i++)
		if (h->lock[i].kind != ABI_FILELOCK_RECORD &&
		    h->lock[i].open == open)
			lock_remove(h, i--);
	return had - h->locks;
}

u32 locktable_move_records(struct locktable_half *h,
			   const struct lock_process *from,
			   const struct lock_process *to)
{
	u32 i, n = 0;

	for (i = 0; i < h->locks; i++) {
		if (h->lock[i].kind != ABI_FILELOCK_RECORD ||
		    !locktable_same_process(&h->lock[i].process, from))
			continue;
		h->lock[i].process = *to;
		n++;
	}
	return n;
}
