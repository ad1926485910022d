// SPDX-License-Identifier: MIT
/*
 * Frames for the program, by their offset in the pool: blocks of 2 MiB that are
 * allocated as a whole or in frames of 4 KiB. Free memory is recorded in
 * `kernel`, not in the pool, to which the proxy can write. sms_memory_lock
 * guards it.
 *
 * Two bit maps list the free blocks, and the divided blocks with a free frame.
 * Each has a second level with a bit for each word that is not 0, so a search
 * reads a few words, however large the pool is.
 */
#include "kernel.h"

#define FRAMES 512
#define UNDIVIDED 0xffff
#define WORD 64ull

struct map {
	/* one bit for each block; one for each word of `bit` that is not 0 */
	u64 *bit, *word;
};

static struct map free_blocks, split_blocks;
static u64 (*used)[FRAMES / WORD]; /* frames of divided blocks */
static u16 *count;		   /* frames in use, or UNDIVIDED */
/* the module's marks: blocks to be cleared */
static u64 *touched;
static u64 blocks, in_use;
static const struct skep_partition_range *range;

static u64 words_of(u64 bits)
{
	return (bits + WORD - 1) / WORD;
}

static void put_bit(struct map *m, u64 i)
{
	m->bit[i / WORD] |= 1ull << i % WORD;
	m->word[i / WORD / WORD] |= 1ull << i / WORD % WORD;
}

static void remove_bit(struct map *m, u64 i)
{
	m->bit[i / WORD] &= ~(1ull << i % WORD);
	if (!m->bit[i / WORD])
		m->word[i / WORD / WORD] &= ~(1ull << i / WORD % WORD);
}

/* The lowest free block; `blocks` if there is none. */
static u64 lowest_bit(const struct map *m)
{
	u64 n = words_of(words_of(blocks)), i, at;

	for (i = 0; i < n && !m->word[i]; i++)
		;
	if (i == n)
		return blocks;
	at = i * WORD + (u32)__builtin_ctzll(m->word[i]);
	return at * WORD + (u32)__builtin_ctzll(m->bit[at]);
}

/* Called before the first touch can happen, so its memory is not reserved. */
static int make_map(struct map *m)
{
	u64 words = words_of(blocks);

	m->bit = (u64 *)sms_page_frames((words + words_of(words)) * 8);
	m->word = m->bit + words;
	return m->bit != 0;
}

int sms_pool_begin(struct skep_partition *p)
{
	const struct skep_partition_range *last;
	u64 i;

	range = skep_partition_ranges(p);
	last = &range[p->ranges - 1];
	blocks = (last->offset + last->length) / LARGE;
	touched = (u64 *)((u8 *)p + p->used_pool);
	used = sms_page_reserve(blocks * sizeof(*used));
	count = sms_page_reserve(blocks * sizeof(*count));
	if (!make_map(&free_blocks) || !make_map(&split_blocks) || !used ||
	    !count)
		return -LINUX_ENOMEM;
	for (i = 0; i < blocks; i++)
		put_bit(&free_blocks, i);
	return 0;
}

u64 sms_pool_bytes(void)
{
	return blocks * LARGE;
}

u64 sms_pool_free_bytes(void)
{
	return blocks * LARGE - in_use;
}

static u64 alloc_frame(u64 block)
{
	u64 *word = used[block];
	u32 i, bit;

	for (i = 0; !~word[i]; i++)
		;
	bit = (u32)__builtin_ctzll(~word[i]);
	word[i] |= 1ull << bit;
	return (i * WORD + bit) * PAGE;
}

static u64 alloc_block(void)
{
	u64 block = lowest_bit(&free_blocks);

	if (block == blocks)
		return ~0ull;
	skep_assert(!count[block]);
	remove_bit(&free_blocks, block);
	touched[block / WORD] |= 1ull << block % WORD;
	return block;
}

u64 sms_pool_take(u32 level)
{
	u64 block = level ? blocks : lowest_bit(&split_blocks);

	sms_spin_assert(&sms_memory_lock);
	if (block == blocks) {
		block = alloc_block();
		if (block == ~0ull)
			return ~0ull;
		if (!level)
			put_bit(&split_blocks, block);
	}
	in_use += level ? LARGE : PAGE;
	if (level) {
		count[block] = UNDIVIDED;
		return block * LARGE;
	}
	if (++count[block] == FRAMES)
		remove_bit(&split_blocks, block);
	return block * LARGE + alloc_frame(block);
}

static void give_frame(u64 block, u64 frame)
{
	u32 i;

	skep_assert(count[block]);
	if (count[block] == UNDIVIDED) {
		for (i = 0; i < FRAMES / WORD; i++)
			used[block][i] = ~0ull;
		count[block] = FRAMES;
	}
	skep_assert(used[block][frame / WORD] >> frame % WORD & 1);
	used[block][frame / WORD] &= ~(1ull << frame % WORD);
	if (--count[block]) {
		put_bit(&split_blocks, block);
		return;
	}
	remove_bit(&split_blocks, block);
	put_bit(&free_blocks, block);
}

/* An undivided block may be freed in parts, if its mapping was split. */
void sms_pool_give(u64 offset, u32 level)
{
	u64 block = offset / LARGE;

	sms_spin_assert(&sms_memory_lock);
	skep_assert(block < blocks && in_use >= (level ? LARGE : PAGE));
	in_use -= level ? LARGE : PAGE;
	if (!level) {
		give_frame(block, offset % LARGE / PAGE);
		return;
	}
	skep_assert(count[block] == UNDIVIDED);
	count[block] = 0;
	put_bit(&free_blocks, block);
}

/* The last range that begins at or below the value, an offset or an address;
 * both ascend. */
static const struct skep_partition_range *find_range(u64 value, int by_offset)
{
	u32 low = 0, high = sms_partition->ranges - 1, middle;
	u64 begin;

	while (low < high) {
		middle = low + (high - low + 1) / 2;
		begin = by_offset ? range[middle].offset : range[middle].start;
		if (begin <= value)
			low = middle;
		else
			high = middle - 1;
	}
	return &range[low];
}

u64 sms_pool_physical(u64 offset)
{
	const struct skep_partition_range *r = find_range(offset, 1);

	return r->start + offset - r->offset;
}

u64 sms_pool_offset(u64 physical)
{
	const struct skep_partition_range *r = find_range(physical, 0);

	return r->offset + physical - r->start;
}
