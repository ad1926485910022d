// SPDX-License-Identifier: MIT
/*
 * Totals of a processor run on while any interval is open; an interval is the
 * difference of the totals at its two marks. So each instruction costs the
 * same with one interval open and with sixteen.
 */
#include <string.h>
#include "tally.h"

static bool is_user(uint64_t address)
{
	return !(address >> 63);
}

/* All figures of a sum are uint64_t, so it can be gone through as an array. */
#define SUM_FIGURES (sizeof(struct tally_sum) / sizeof(uint64_t))

static void add_difference(struct tally_sum *sum, const struct tally_sum *to,
			   const struct tally_sum *from)
{
	uint64_t *s = (uint64_t *)sum;
	const uint64_t *t = (const uint64_t *)to;
	const uint64_t *f = (const uint64_t *)from;

	for (size_t i = 0; i < SUM_FIGURES; i++)
		s[i] += t[i] - f[i];
}

bool count_tally_self_branch(const uint8_t *b, size_t size)
{
	switch (size) {
	case 2: /* jmp, jcc, loop, jrcxz with 8 bits of displacement */
		return b[1] == 0xfe && (b[0] == 0xeb || b[0] >> 4 == 7 ||
					(b[0] >= 0xe0 && b[0] <= 0xe3));
	case 5:
		return !memcmp(b, "\xe9\xfb\xff\xff\xff", 5);
	case 6:
		return b[0] == 0x0f && b[1] >> 4 == 8 &&
		       !memcmp(b + 2, "\xfa\xff\xff\xff", 4);
	}
	return false;
}

void count_tally_read_mark(struct tally_kind *kind, const uint8_t *b,
			   size_t size)
{
	uint32_t v;

	if (size != 7 || memcmp(b, "\x0f\x1f\x80", 3))
		return;
	v = b[3] | b[4] << 8 | b[5] << 16 | (uint32_t)b[6] << 24;
	if ((v & SKEP_MARK_TAG_BITS) != SKEP_MARK_TAG)
		return;
	kind->mark = true;
	kind->end = v & SKEP_MARK_END_BIT;
	kind->interval = v % SKEP_MARK_INTERVALS;
}

/* The place of an address in the table; its end if it is not there. */
static unsigned int find_entry(const struct tally *t, uint64_t address)
{
	unsigned int i;

	for (i = 0; i < t->entry_count; i++)
		if (t->entry_address[i] == address)
			break;
	return i;
}

static bool is_entry(const struct tally *t, uint64_t address)
{
	return t->was_user && !is_user(address);
}

bool count_tally_quiet(const struct tally *t, uint64_t address,
		       const struct tally_kind *kind)
{
	if (kind->mark)
		return false;
	if (!t->open || !is_entry(t, address))
		return true;
	return find_entry(t, address) < t->entry_count;
}

static void count_entry(struct tally *t, uint64_t address)
{
	unsigned int i = find_entry(t, address);

	t->now.entries++;
	if (i == TALLY_ENTRIES) {
		t->now.entries_other++;
		return;
	}
	if (i == t->entry_count)
		t->entry_address[t->entry_count++] = address;
	t->now.entry[i]++;
}

static void begin_interval(struct tally *t, unsigned int n)
{
	if (t->open & 1U << n) {
		t->lost++;
		return;
	}
	t->open |= 1U << n;
	t->begun[n] = t->now;
}

static void end_interval(struct tally *t, unsigned int n)
{
	if (!(t->open & 1U << n)) {
		t->lost++;
		return;
	}
	t->open &= ~(1U << n);
	t->times[n]++;
	add_difference(&t->sum[n], &t->now, &t->begun[n]);
}

/* Where the processor is now, for telling entries and restarts. */
static void set_place(struct tally *t, uint64_t address)
{
	t->last = address;
	t->was_user = is_user(address);
	if (t->was_user)
		t->last_user = address;
}

static void count_instruction(struct tally *t, uint64_t address,
			      const struct tally_kind *kind)
{
	bool restart =
		is_user(address) && !t->was_user && address == t->last_user;

	if (address == t->last && !kind->self_branch)
		return;
	t->now.restarts += restart;
	if (is_user(address)) {
		t->now.user++;
	} else {
		if (t->was_user)
			count_entry(t, address);
		t->now.kernel++;
	}
	for (uint32_t left = kind->ranges; left; left &= left - 1) {
		t->now.range[__builtin_ctz(left)]++;
		t->now.range_restarts[__builtin_ctz(left)] += restart;
	}
	if (kind->point >= 0)
		t->now.point[kind->point]++;
	set_place(t, address);
}

/*
 * A mark is not counted, but it is where the processor is. So an entry
 * directly after a begin counts, and a mark in the kernel that follows user
 * space directly is an entry of the intervals that were open before it.
 */
static void pass_mark(struct tally *t, uint64_t address,
		      const struct tally_kind *kind)
{
	if (t->open && is_entry(t, address))
		count_entry(t, address);
	if (kind->end)
		end_interval(t, kind->interval);
	else
		begin_interval(t, kind->interval);
	set_place(t, address);
}

void count_tally_step(struct tally *t, uint64_t address,
		      const struct tally_kind *kind)
{
	if (kind->mark)
		pass_mark(t, address, kind);
	else if (t->open)
		count_instruction(t, address, kind);
}
