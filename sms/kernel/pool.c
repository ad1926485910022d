// SPDX-License-Identifier: MIT
/*
 * Frames for the program, by their offset in the pool: blocks of 2 MiB that
 * are given whole or in 4 KiB. What is free is written down in `kernel`, never
 * in the pool, which the proxy can write to. Callers hold memory.c's lock.
 */
#include "kernel.h"

#define FRAMES 512
#define WHOLE 0xffff

struct block {
	u64 used[FRAMES / 64];
	u32 count; /* frames in use, or WHOLE */
	u32 pad;
};

static struct block *block;
static u64 blocks, cursor, partial, in_use;

int sms_pool_begin(struct skep_partition *p)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < p->ranges; i++)
		bytes += skep_partition_ranges(p)[i].length;
	blocks = bytes / LARGE;
	block = sms_page_reserve(blocks * sizeof(*block) + 1);
	return block ? 0 : -ABI_ENOMEM;
}

u64 sms_pool_bytes(void)
{
	return blocks * LARGE;
}

u64 sms_pool_free_bytes(void)
{
	return blocks * LARGE - in_use;
}

/* A block of which nothing is used; `blocks` when there is none. */
static u64 find_whole(void)
{
	u64 i, at;

	for (i = 0; i < blocks; i++) {
		at = (cursor + i) % blocks;
		if (!block[at].count) {
			cursor = at;
			return at;
		}
	}
	return blocks;
}

static u64 find_partial(void)
{
	u64 i, at;

	for (i = 0; i < blocks; i++) {
		at = (partial + i) % blocks;
		if (block[at].count && block[at].count < FRAMES)
			return at;
	}
	return find_whole();
}

static u64 take_frame(struct block *b)
{
	u32 i, bit;

	for (i = 0; !~b->used[i]; i++)
		;
	bit = (u32)__builtin_ctzll(~b->used[i]);
	b->used[i] |= 1ull << bit;
	b->count++;
	return (i * 64ull + bit) * PAGE;
}

/* The module clears what is marked. */
static void mark(u64 at)
{
	u64 *used = (u64 *)((u8 *)sms_partition + sms_partition->used_pool);

	used[at / 64] |= 1ull << at % 64;
}

u64 sms_pool_take(u32 level)
{
	u64 at;

	if (level) {
		at = find_whole();
		if (at == blocks)
			return ~0ull;
		block[at].count = WHOLE;
		mark(at);
		in_use += LARGE;
		return at * LARGE;
	}
	partial = find_partial();
	if (partial == blocks) {
		partial = 0;
		return ~0ull;
	}
	in_use += PAGE;
	mark(partial);
	return partial * LARGE + take_frame(&block[partial]);
}

/* A whole block may come back in pieces, after its mapping was divided. */
void sms_pool_give(u64 offset, u32 level)
{
	struct block *b = &block[offset / LARGE];
	u32 frame = offset % LARGE / PAGE, i;

	if (b->count == WHOLE) {
		for (i = 0; i < FRAMES / 64; i++)
			b->used[i] = ~0ull;
		b->count = FRAMES;
	}
	if (level) {
		abi_memset(b, 0, sizeof(*b));
		in_use -= LARGE;
		return;
	}
	b->used[frame / 64] &= ~(1ull << frame % 64);
	b->count--;
	in_use -= PAGE;
}

u64 sms_pool_physical(u64 offset)
{
	const struct skep_partition_range *r =
		skep_partition_ranges(sms_partition);

	for (; offset >= r->length; r++)
		offset -= r->length;
	return r->start + offset;
}

u64 sms_pool_offset(u64 physical)
{
	const struct skep_partition_range *r =
		skep_partition_ranges(sms_partition);
	u64 before = 0;

	for (; physical - r->start >= r->length; r++)
		before += r->length;
	return before + physical - r->start;
}
