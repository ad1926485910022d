// SPDX-License-Identifier: MIT
/*
 * The program's memory. `range` lists what is committed, and with which access;
 * frames are allocated on first touch, 2 MiB at a time if a range contains all
 * of them.
 *
 * One lock guards ranges, tables and the pool. It is not held while a frame is
 * zeroed: the frame is allocated, zeroed without the lock, and mapped unless
 * another core has mapped one in the meantime. When rights are removed, frames
 * stay in their entries, marked as not present, until no core can use them any
 * more.
 */
#include "kernel.h"

#define RANGES 32768

struct range {
	u64 start, end;
	u32 prot, pad;
};

static struct range *range; /* sorted, never overlapping */
static u32 ranges;
struct spin sms_memory_lock;

int sms_memory_begin(void)
{
	range = sms_page_reserve(RANGES * sizeof(*range));
	return range ? 0 : -LINUX_ENOMEM;
}

/* The first range that ends above addr. */
static u32 find_range(u64 addr)
{
	u32 low = 0, high = ranges, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (range[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void move_ranges(u32 from, u32 to)
{
	abi_memmove(&range[to], &range[from], (ranges - from) * sizeof(*range));
	ranges += to - from;
}

/* Splits the range that contains addr. */
static void divide_range(u64 addr)
{
	u32 i = find_range(addr);

	if (i == ranges || range[i].start >= addr)
		return;
	move_ranges(i, i + 1);
	range[i].end = range[i + 1].start = addr;
}

/* Removes [start, end) from the list; returns its index. */
static u32 cut_range(u64 start, u64 end)
{
	u32 from, to;

	divide_range(start);
	divide_range(end);
	from = find_range(start);
	for (to = from; to < ranges && range[to].start < end; to++)
		;
	move_ranges(to, from);
	return from;
}

static void join_ranges(u32 i)
{
	if (i + 1 >= ranges || range[i].end != range[i + 1].start ||
	    range[i].prot != range[i + 1].prot)
		return;
	range[i].end = range[i + 1].end;
	move_ranges(i + 2, i + 1);
}

static void set_range(u64 start, u64 end, u32 prot)
{
	u32 i = cut_range(start, end);

	skep_assert(start < end && ranges < RANGES);
	skep_assert(!i || range[i - 1].end <= start);
	skep_assert(i == ranges || range[i].start >= end);
	move_ranges(i, i + 1);
	range[i] = (struct range){.start = start, .end = end, .prot = prot};
	join_ranges(i);
	if (i)
		join_ranges(i - 1);
}

static int has_room(void)
{
	return ranges + 4 <= RANGES;
}

static int is_outside(u64 addr, u64 len)
{
	u64 end;

	if (__builtin_add_overflow(addr, len, &end) || !len ||
	    (addr | len) & (PAGE - 1))
		return 1;
	return !(addr >= SKEP_IMAGE_START && end <= SKEP_IMAGE_END) &&
	       !(addr >= SKEP_ARENA_START && end <= SKEP_ARENA_END);
}

static u64 flags_of(u32 prot)
{
	return (prot & 7 ? SMS_PAGE_PRESENT : SMS_PAGE_KEPT) | SMS_PAGE_USER |
	       SMS_PAGE_TOUCHED | (prot & ABI_PROT_WRITE ? SMS_PAGE_WRITE : 0) |
	       (prot & ABI_PROT_EXEC ? 0 : SMS_PAGE_NX);
}

/* An operation on each entry that has a frame, and its result. */
struct walk {
	enum { WALK_PROTECT, WALK_HIDE, WALK_FREE } what;
	u64 flags;
	u32 less; /* rights were removed */
};

static void change_entry(struct walk *w, u64 *entry, u32 level)
{
	u64 old = *entry, frame = old & SMS_PAGE_FRAME;
	u64 large = level ? SMS_PAGE_LARGE : 0;

	if (w->what == WALK_FREE) {
		*entry = 0;
		sms_pool_give(sms_pool_offset(frame), level);
		return;
	}
	*entry = frame | large |
		 (w->what == WALK_HIDE ? SMS_PAGE_KEPT : w->flags);
	if (old & SMS_PAGE_PRESENT &&
	    (w->what == WALK_HIDE ||
	     (old & ~w->flags & (SMS_PAGE_PRESENT | SMS_PAGE_WRITE)) ||
	     (w->flags & ~old & SMS_PAGE_NX)))
		w->less = 1;
}

/* Walks the entries from addr to end in one table. */
static void walk_table(struct walk *w, u64 addr, u64 end)
{
	u64 *entry = sms_page_entry(addr, 0, 0);

	for (; entry && addr < end; addr += PAGE, entry++)
		if (*entry)
			change_entry(w, entry, 0);
}

/* Splits a page of 2 MiB that crosses addr. */
static s64 divide_large(struct walk *w, u64 addr)
{
	u64 *entry = addr % LARGE ? sms_page_entry(addr, 1, 0) : 0;

	if (!entry || !(*entry & SMS_PAGE_LARGE))
		return 0;
	w->less = 1; /* no core may use both page sizes at once */
	return sms_page_split(entry);
}

static void walk_all(struct walk *w, u64 addr, u64 end)
{
	u64 next, *entry;

	for (; addr < end; addr = next) {
		next = (addr & ~(LARGE - 1)) + LARGE;
		entry = sms_page_entry(addr, 1, 0);
		if (!entry) /* no table for this GiB */
			next = (addr & ~((LARGE << 9) - 1)) + (LARGE << 9);
		else if (*entry & SMS_PAGE_LARGE)
			change_entry(w, entry, 1);
		else if (*entry)
			walk_table(w, addr, next < end ? next : end);
	}
}

/* Changes all entries, or without memory for tables none. */
static s64 walk_range(struct walk *w, u64 addr, u64 end)
{
	s64 err = divide_large(w, addr);

	if (!err)
		err = divide_large(w, end);
	if (!err)
		walk_all(w, addr, end);
	return err;
}

/* Frees frames when no core uses them any more. */
static s64 drop_frames(u64 start, u64 end)
{
	struct walk w = {.what = WALK_HIDE};
	s64 err = walk_range(&w, start, end);

	if (w.less)
		sms_thread_flush();
	w.what = WALK_FREE;
	return err ? err : walk_range(&w, start, end);
}

/*
 * More memory may be committed than exists, because much of it is never
 * touched. But if a small request exceeds what is left, the call fails now,
 * instead of a touch that kills the program later.
 */
static int used_up(u64 len)
{
	u64 left = sms_pool_free_bytes();

	return left < len && left < LARGE;
}

s64 sms_memory_commit(u64 addr, u64 len, u32 prot)
{
	s64 err;

	if (is_outside(addr, len))
		return -LINUX_EINVAL;
	sms_spin_lock(&sms_memory_lock);
	err = has_room() && !used_up(len) ? drop_frames(addr, addr + len)
					  : -LINUX_ENOMEM;
	if (!err)
		set_range(addr, addr + len, prot);
	sms_spin_unlock(&sms_memory_lock);
	return err;
}

s64 sms_memory_protect(u64 addr, u64 len, u32 prot)
{
	struct walk w = {.what = WALK_PROTECT, .flags = flags_of(prot)};
	s64 err;

	if (is_outside(addr, len))
		return -LINUX_EINVAL;
	sms_spin_lock(&sms_memory_lock);
	err = has_room() ? walk_range(&w, addr, addr + len) : -LINUX_ENOMEM;
	if (!err)
		set_range(addr, addr + len, prot);
	if (w.less)
		sms_thread_flush();
	sms_spin_unlock(&sms_memory_lock);
	return err;
}

s64 sms_memory_release(u64 addr, u64 len)
{
	s64 err;

	if (is_outside(addr, len))
		return -LINUX_EINVAL;
	sms_spin_lock(&sms_memory_lock);
	err = has_room() ? drop_frames(addr, addr + len) : -LINUX_ENOMEM;
	if (!err)
		cut_range(addr, addr + len);
	sms_spin_unlock(&sms_memory_lock);
	return err;
}

s64 sms_memory_discard(u64 addr, u64 len)
{
	s64 err;

	if (is_outside(addr, len))
		return -LINUX_EINVAL;
	sms_spin_lock(&sms_memory_lock);
	err = drop_frames(addr, addr + len);
	sms_spin_unlock(&sms_memory_lock);
	return err;
}

/* The range that contains addr and allows prot, or NULL. */
static const struct range *find_allowed(u64 addr, u32 prot)
{
	u32 i = find_range(addr);

	if (i == ranges || range[i].start > addr ||
	    (range[i].prot & prot) != prot || !range[i].prot)
		return 0;
	return &range[i];
}

/* The page size for addr: level 1 if 2 MiB can be mapped. The last part of a
 * pool is mapped in small pages. */
static u32 level_for(const struct range *r, u64 addr)
{
	u64 start = addr & ~(LARGE - 1);
	u64 *entry = sms_page_entry(addr, 1, 1);

	return entry && !*entry && start >= r->start &&
	       start + LARGE <= r->end &&
	       sms_pool_free_bytes() > sms_pool_bytes() / 8;
}

/* The entry for a new frame; NULL if it has a frame, or *level is too high
 * now. */
static u64 *empty_entry(u64 addr, u32 level)
{
	u64 *entry = sms_page_entry(addr, level, 1);

	return entry && !*entry ? entry : 0;
}

static int page_present(u64 addr)
{
	u64 *entry = sms_page_entry(addr, 1, 0);

	if (!entry || !*entry)
		return 0;
	if (!(*entry & SMS_PAGE_LARGE))
		entry = sms_page_entry(addr, 0, 0);
	return *entry != 0;
}

static void count_page(u32 level)
{
	struct core *c = sms_core();

	if (level)
		SMS_COUNT(c, large);
	else
		SMS_COUNT(c, pages);
}

/* Maps a zeroed frame at addr. The caller holds the lock, which is released in
 * between. -ENOMEM or 0. */
static int enter_frame(u64 addr, u32 prot)
{
	const struct range *r = find_allowed(addr, prot);
	u32 level = level_for(r, addr);
	u64 offset = sms_pool_take(level), *entry, size;

	sms_spin_assert(&sms_memory_lock);
	if (offset == ~0ull && level)
		offset = sms_pool_take(level = 0);
	if (offset == ~0ull)
		return -LINUX_ENOMEM;
	size = level ? LARGE : PAGE;
	sms_spin_unlock(&sms_memory_lock);
	abi_memset((void *)(AT_POOL + offset), 0, size);
	sms_spin_lock(&sms_memory_lock);
	r = find_allowed(addr, prot);
	entry = r ? empty_entry(addr, level) : 0;
	if (entry && level &&
	    (r->start > (addr & ~(LARGE - 1)) ||
	     r->end < (addr & ~(LARGE - 1)) + LARGE))
		entry = 0;
	if (!entry) {
		sms_pool_give(offset, level);
		return r && !sms_page_entry(addr, level, 1) ? -LINUX_ENOMEM : 0;
	}
	*entry = sms_pool_physical(offset) | flags_of(r->prot) |
		 (level ? SMS_PAGE_LARGE : 0);
	count_page(level);
	return 0;
}

int sms_memory_touch(u64 addr, u32 prot)
{
	int got = 0;

	sms_spin_lock(&sms_memory_lock);
	while (!got && find_allowed(addr, prot)) {
		if (page_present(addr))
			got = 1;
		else
			got = enter_frame(addr, prot);
	}
	if (got > 0)
		sms_cpu_forget(addr);
	sms_spin_unlock(&sms_memory_lock);
	return got;
}

u64 sms_memory_offset(u64 addr, u32 prot, u64 *length)
{
	u64 *entry, size = LARGE, found = ~0ull;

	sms_spin_lock(&sms_memory_lock);
	entry = sms_page_entry(addr, 1, 0);
	if (entry && *entry && !(*entry & SMS_PAGE_LARGE)) {
		entry = sms_page_entry(addr, 0, 0);
		size = PAGE;
	}
	if (entry && *entry && find_allowed(addr, prot)) {
		found = sms_pool_offset(*entry & SMS_PAGE_FRAME) +
			(addr & (size - 1));
		*length = size - (addr & (size - 1));
	}
	sms_spin_unlock(&sms_memory_lock);
	return found;
}

s64 sms_memory_populate(u64 addr, u64 len)
{
	u64 end = addr + len, at, part;
	int got;

	for (at = addr; at < end; at += part) {
		part = PAGE;
		got = sms_memory_touch(at, ABI_PROT_READ);
		if (got < 0)
			return -LINUX_ENOMEM;
		if (got)
			sms_memory_offset(at, ABI_PROT_READ, &part);
	}
	return 0;
}
