/* SPDX-License-Identifier: MIT */
/*
 * The address map's array: search, edit, invariants, readers. Editors hold
 * space.change; during each edit space.lock is held and space.seq is odd.
 */
#include "space.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/page.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"

int abi_space_init(struct abi_proc *p)
{
	p->space.brk = SKEP_BRK_START;
	p->space.top =
		p->info.file_window ? p->info.file_window : SKEP_MMAP_END;
	p->space.limit = p->info.mem_limit;
	if (!p->space.limit)
		p->space.limit = p->info.mem_total;
	return p->space.limit ? 0 : -LINUX_EINVAL;
}

u32 abi_space_index(const struct abi_space *s, u64 addr)
{
	u32 low = 0, high = __atomic_load_n(&s->areas, __ATOMIC_RELAXED), mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (__atomic_load_n(&s->area[mid].end, __ATOMIC_RELAXED) > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

int abi_space_free(const struct abi_space *s, u64 start, u64 end)
{
	u32 i = abi_space_index(s, start);

	abi_assert_locked(&s->change);
	return i == s->areas || s->area[i].start >= end;
}

int abi_space_full(const struct abi_space *s, u64 start, u64 end)
{
	u32 i = abi_space_index(s, start);

	abi_assert_locked(&s->change);
	for (; start < end; start = s->area[i++].end)
		if (i == s->areas || s->area[i].start > start)
			return 0;
	return 1;
}

u64 abi_space_find(const struct abi_space *s, u64 len)
{
	u64 top = s->top, floor;
	u32 i = s->areas;

	abi_assert_locked(&s->change);
	while (i && s->area[i - 1].start >= top) /* in the window */
		i--;
	while (top >= SKEP_MMAP_START) {
		floor = i ? s->area[i - 1].end : 0;
		if (floor < SKEP_MMAP_START)
			floor = SKEP_MMAP_START;
		if (top >= floor && top - floor >= len)
			return top - len;
		if (!i)
			break;
		top = s->area[--i].start;
	}
	return 0;
}

/* An operation adds at most one area and splits at most two. */
int abi_space_room(const struct abi_space *s)
{
	abi_assert_locked(&s->change);
	return s->areas + 3 <= ABI_AREAS_MAX;
}

/* Edits -------------------------------------------------------------------- */

static void edit_begin(struct abi_proc *p)
{
	struct abi_space *s = &p->space;

	abi_assert_locked(&s->change);
	abi_lock(p, &s->lock);
	__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void edit_end(struct abi_proc *p)
{
	struct abi_space *s = &p->space;

	__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELEASE);
	if (s->committed > s->committed_peak)
		s->committed_peak = s->committed;
	abi_unlock(p, &s->lock);
}

static void count_add(struct abi_space *s, const struct abi_area *a)
{
	s->mapped += a->end - a->start;
	if (abi_area_counted(a))
		s->committed += a->end - a->start;
}

static void count_sub(struct abi_space *s, const struct abi_area *a)
{
	s->mapped -= a->end - a->start;
	if (abi_area_counted(a))
		s->committed -= a->end - a->start;
}

static void open_gap(struct abi_space *s, u32 at)
{
	abi_memmove(&s->area[at + 1], &s->area[at],
		    (s->areas - at) * sizeof(s->area[0]));
	s->areas++;
}

static void close_gap(struct abi_space *s, u32 at, u32 count)
{
	abi_memmove(&s->area[at], &s->area[at + count],
		    (s->areas - at - count) * sizeof(s->area[0]));
	s->areas -= count;
}

/* Splits the area that contains addr, if there is one. */
static void split_area(struct abi_space *s, u64 addr)
{
	u32 i = abi_space_index(s, addr);
	struct abi_area *a = &s->area[i];

	if (i == s->areas || a->start >= addr)
		return;
	open_gap(s, i);
	a[0].end = addr;
	a[1].start = addr;
	if (a->backing || a->segment)
		a[1].offset += addr - a->start;
	if (a->backing)
		s->backing[a->backing].areas++;
}

static int areas_alike(const struct abi_area *a, const struct abi_area *b)
{
	return a->end == b->start && a->prot == b->prot && a->bits == b->bits &&
	       a->backing == b->backing && a->segment == b->segment &&
	       ((!a->backing && !a->segment) ||
		a->offset + (a->end - a->start) == b->offset);
}

void abi_space_unback(struct abi_space *s, u32 backing)
{
	abi_assert_locked(&s->change);
	if (backing && !--s->backing[backing].areas)
		s->orphans++;
}

/* Merge the areas from the one before `from` to the one at `to`. */
static void merge_areas(struct abi_space *s, u64 from, u64 to)
{
	u32 i = abi_space_index(s, from);

	i -= i > 0;
	while (i + 1 < s->areas && s->area[i].end <= to) {
		if (!areas_alike(&s->area[i], &s->area[i + 1])) {
			i++;
			continue;
		}
		s->area[i].end = s->area[i + 1].end;
		abi_space_unback(s, s->area[i].backing);
		close_gap(s, i + 1, 1);
	}
}

void abi_space_insert(struct abi_proc *p, const struct abi_area *area)
{
	struct abi_space *s = &p->space;
	u32 i;

	edit_begin(p);
	i = abi_space_index(s, area->start);
	open_gap(s, i);
	s->area[i] = *area;
	count_add(s, area);
	merge_areas(s, area->start, area->end);
	edit_end(p);
}

void abi_space_cut(struct abi_proc *p, u64 start, u64 end)
{
	struct abi_space *s = &p->space;
	u32 i, n = 0;

	edit_begin(p);
	split_area(s, start);
	split_area(s, end);
	i = abi_space_index(s, start);
	for (; i + n < s->areas && s->area[i + n].start < end; n++) {
		count_sub(s, &s->area[i + n]);
		abi_space_unback(s, s->area[i + n].backing);
	}
	close_gap(s, i, n);
	edit_end(p);
}

void abi_space_mark(struct abi_proc *p, u64 start, u64 end, u32 prot, u32 bits)
{
	struct abi_space *s = &p->space;
	u32 i;

	edit_begin(p);
	split_area(s, start);
	split_area(s, end);
	i = abi_space_index(s, start);
	for (; i < s->areas && s->area[i].start < end; i++) {
		count_sub(s, &s->area[i]);
		s->area[i].prot = (u8)prot;
		s->area[i].bits |= (u8)bits;
		count_add(s, &s->area[i]);
	}
	merge_areas(s, start, end);
	edit_end(p);
}

u32 abi_space_back(struct abi_space *s, u32 file)
{
	u32 i;

	abi_assert_locked(&s->change);
	for (i = 1; i < ABI_BACKINGS_MAX; i++)
		if (!s->backing[i].areas && !s->backing[i].file) {
			s->backing[i].file = file + 1;
			s->backing[i].areas = 1;
			return i;
		}
	return 0;
}

/* Readers ------------------------------------------------------------------ */

/* May read an array that is being edited: every index is bounded, and the
 * caller retries. */
static int range_holds(const struct abi_space *s, u64 start, u64 end, u32 prot)
{
	u32 n = __atomic_load_n(&s->areas, __ATOMIC_RELAXED);
	u32 i = abi_space_index(s, start);
	const struct abi_area *a;

	for (; start < end && i < n; i++) {
		a = &s->area[i];
		if (__atomic_load_n(&a->start, __ATOMIC_RELAXED) > start)
			return 0;
		if (prot & ~__atomic_load_n(&a->prot, __ATOMIC_RELAXED))
			return 0;
		start = __atomic_load_n(&a->end, __ATOMIC_RELAXED);
	}
	return start >= end;
}

int abi_space_check(struct abi_proc *p, u64 addr, u64 len, u32 prot)
{
	struct abi_space *s = &p->space;
	u32 seq = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);
	u64 end;
	int ok;

	if (__builtin_add_overflow(addr, len, &end))
		return 0;
	if (!(seq & 1)) {
		ok = range_holds(s, addr, end, prot);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (seq == __atomic_load_n(&s->seq, __ATOMIC_RELAXED))
			return ok;
	}
	abi_lock(p, &s->lock);
	ok = range_holds(s, addr, end, prot);
	abi_unlock(p, &s->lock);
	return ok;
}

int abi_space_next(struct abi_proc *p, u64 addr, struct abi_area *area)
{
	struct abi_space *s = &p->space;
	u32 i;
	int found;

	abi_lock(p, &s->lock);
	i = abi_space_index(s, addr);
	found = i < s->areas;
	if (found)
		*area = s->area[i];
	abi_unlock(p, &s->lock);
	return found;
}

int abi_space_is_common(const struct abi_proc *p, const struct abi_area *a)
{
	return a->bits & ABI_AREA_SHARED && !a->backing &&
	       (abi_forks(p) || a->bits & ABI_AREA_DIRECT);
}

void abi_space_count(struct abi_proc *p, u64 *committed, u64 *mapped)
{
	abi_lock(p, &p->space.lock);
	*committed = p->space.committed;
	*mapped = p->space.mapped;
	abi_unlock(p, &p->space.lock);
}

/* Invariants --------------------------------------------------------------- */

static const char *area_wrong(const struct abi_area *a)
{
	if (a->start >= a->end)
		return "empty area";
	if ((a->start | a->end) & ABI_PAGE_MASK)
		return "area not page aligned";
	if (!abi_space_range(a->start, a->end))
		return "area outside the guest's ranges";
	if (a->prot && !(a->bits & ABI_AREA_COMMITTED))
		return "accessible area without memory";
	if ((a->prot & ABI_PROT_WRITE) && (a->prot & ABI_PROT_EXEC))
		return "area writable and executable";
	return 0;
}

static const char *backings_wrong(const struct abi_space *s)
{
	u32 i, k, n;

	if (s->orphans)
		return "a file was not released";
	for (k = 1; k < ABI_BACKINGS_MAX; k++) {
		if (!s->backing[k].areas && !s->backing[k].file)
			continue;
		for (i = 0, n = 0; i < s->areas; i++)
			n += s->area[i].backing == k;
		if (n != s->backing[k].areas)
			return "count of a backing is wrong";
		if (n && !s->backing[k].file)
			return "backing without a file";
	}
	return 0;
}

const char *abi_space_wrong(const struct abi_space *s)
{
	u64 mapped = 0, committed = 0;
	const char *why;
	u32 i;

	for (i = 0; i < s->areas; i++) {
		why = area_wrong(&s->area[i]);
		if (why)
			return why;
		if (i && s->area[i - 1].end > s->area[i].start)
			return "areas overlap or are not sorted";
		if (i && areas_alike(&s->area[i - 1], &s->area[i]))
			return "neighbours not merged";
		mapped += s->area[i].end - s->area[i].start;
		if (s->area[i].bits & ABI_AREA_COMMITTED)
			committed += s->area[i].end - s->area[i].start;
	}
	if (mapped != s->mapped || committed != s->committed)
		return "byte counts are wrong";
	return backings_wrong(s);
}
