// SPDX-License-Identifier: MIT
#include "place.h"

#include "base/errno.h"

#define PAGE 4096ull
#define TAKEN 3 /* the two files, and the kernel's new place */

/* What must not be overwritten, by offsets in the pool. */
struct taken {
	struct shimos_place_file at[TAKEN];
	u32 count;
};

static u64 pool_bytes(const struct shimos_ranges *pool)
{
	const struct skep_partition_range *last = pool->at + pool->count - 1;

	return pool->count ? last->offset + last->length : 0;
}

int shimos_place_check(const struct shimos_ranges *pool,
		       const struct shimos_place_file *f,
		       struct shimos_text *why)
{
	u64 bytes = pool_bytes(pool);

	if (f->length && f->length <= bytes && f->offset % PAGE == 0 &&
	    f->offset <= bytes - f->length)
		return 0;
	shimos_text_add(why, "the kernel or its initial file system does not "
			     "lie in the partition's memory");
	return -LINUX_EINVAL;
}

/* The end of what overlaps [offset, offset + length), or 0. */
static u64 find_taken(const struct taken *t, u64 offset, u64 length)
{
	u32 i;

	for (i = 0; i < t->count; i++)
		if (offset < t->at[i].offset + t->at[i].length &&
		    t->at[i].offset < offset + length)
			return t->at[i].offset + t->at[i].length;
	return 0;
}

/* The lowest offset in range r with this much free memory at an aligned
 * address of at least `least`; or -1. */
static s64 find_in_range(const struct skep_partition_range *r,
			 const struct taken *t, u64 length, u64 align,
			 u64 least)
{
	u64 at = r->start < least ? least : r->start, end;

	for (;;) {
		at = (at + align - 1) & ~(align - 1);
		if (at < r->start || at - r->start > r->length ||
		    length > r->length - (at - r->start))
			return -1;
		end = find_taken(t, r->offset + (at - r->start), length);
		if (!end)
			return (s64)(r->offset + (at - r->start));
		at = r->start + (end - r->offset);
	}
}

static int take_memory(const struct shimos_ranges *pool, struct taken *t,
		       u64 length, u64 align, u64 least, u64 *physical)
{
	u64 left;
	s64 at = -1;
	u32 i;

	for (i = 0; i < pool->count && at < 0; i++)
		at = find_in_range(pool->at + i, t, length, align, least);
	if (at < 0)
		return -LINUX_ENOMEM;
	*physical = shimos_ranges_place(pool, (u64)at, &left);
	if (t->count < TAKEN)
		t->at[t->count++] = (struct shimos_place_file){
			.offset = (u64)at, .length = length};
	return 0;
}

static int refuse_memory(struct shimos_text *why, const char *what, u64 bytes)
{
	shimos_text_add(why, "the partition has no ");
	shimos_text_bytes(why, bytes);
	shimos_text_add(why, " in one piece for the ");
	shimos_text_add(why, what);
	shimos_text_add(why, ": create one with more memory");
	return -LINUX_ENOMEM;
}

int shimos_place_make(const struct shimos_ranges *pool,
		      const struct shimos_bzimage *b,
		      const struct shimos_place_file *kernel,
		      const struct shimos_place_file *initrd,
		      struct shimos_place *out, struct shimos_text *why)
{
	struct taken t = {.at = {*kernel, *initrd}, .count = 2};
	u64 left;
	int err = shimos_place_check(pool, kernel, why);

	if (!err)
		err = shimos_place_check(pool, initrd, why);
	if (err)
		return err;
	if (take_memory(pool, &t, b->room, b->align, b->least, &out->kernel))
		return refuse_memory(why, "kernel", b->room);
	out->initrd = shimos_ranges_place(pool, initrd->offset, &left);
	out->move = left < initrd->length;
	if (out->move &&
	    take_memory(pool, &t, initrd->length, PAGE, 0, &out->initrd))
		return refuse_memory(why, "initial file system",
				     initrd->length);
	return 0;
}
