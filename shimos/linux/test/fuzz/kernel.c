// SPDX-License-Identifier: MIT
/* Any bytes as a kernel file, files anywhere in a pool of any ranges, and any
 * words: what is accepted overlaps nothing, and lies in the pool. */
#include <stdlib.h>
#include <string.h>

#include "../../bytes.h"
#include "../../params.h"
#include "../../place.h"

#define LARGE 0x200000ull
#define RANGES 6

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static struct skep_partition_range at[RANGES];

static u64 take_number(const u8 **data, size_t *size, u32 bytes)
{
	u64 n;

	if (*size < bytes)
		return 0;
	n = shimos_bytes_get(*data, bytes);
	*data += bytes;
	*size -= bytes;
	return n;
}

static struct shimos_ranges take_pool(const u8 **data, size_t *size)
{
	struct shimos_ranges pool = {.at = at, .room = RANGES};
	u64 start = 0;

	while (pool.count < RANGES) {
		start += take_number(data, size, 1) * LARGE;
		at[pool.count].start = start;
		at[pool.count].length =
			(take_number(data, size, 1) + 1) * LARGE;
		start += at[pool.count++].length + LARGE;
	}
	shimos_ranges_number(&pool);
	return pool;
}

static int is_apart(u64 a, u64 length, u64 b, u64 other)
{
	return a + length <= b || b + other <= a;
}

/* The pieces of a file must be apart from [start, start + length). */
static void check_apart(const struct shimos_ranges *pool,
			const struct shimos_place_file *f, u64 start,
			u64 length)
{
	u64 done, left, where;

	for (done = 0; done < f->length; done += left) {
		where = shimos_ranges_place(pool, f->offset + done, &left);
		if (left > f->length - done)
			left = f->length - done;
		if (!is_apart(start, length, where, left))
			abort();
	}
}

static void check_inside(const struct shimos_ranges *pool, u64 start,
			 u64 length)
{
	u32 i;

	for (i = 0; i < pool->count; i++)
		if (start >= at[i].start &&
		    start + length <= at[i].start + at[i].length)
			return;
	abort();
}

static void check_place(const struct shimos_ranges *pool,
			const struct shimos_bzimage *b,
			const struct shimos_place_file *k,
			const struct shimos_place_file *i)
{
	struct shimos_place got;
	struct shimos_text t;
	char why[192];

	shimos_text_begin(&t, why, sizeof(why));
	if (shimos_place_make(pool, b, k, i, &got, &t)) {
		if (!*why)
			abort();
		return;
	}
	if (got.kernel % b->align || got.kernel < b->least)
		abort();
	check_inside(pool, got.kernel, b->room);
	check_inside(pool, got.initrd, i->length);
	check_apart(pool, k, got.kernel, b->room);
	check_apart(pool, i, got.kernel, b->room);
	if (!is_apart(got.kernel, b->room, got.initrd, i->length))
		abort();
	if (got.move)
		check_apart(pool, i, got.initrd, i->length);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static u8 head[SHIMOS_BZIMAGE_HEAD];
	struct shimos_ranges pool = take_pool(&data, &size);
	struct shimos_place_file k, i;
	struct shimos_bzimage b;
	struct shimos_text t;
	char why[192], to[512];
	int err;

	k.offset = take_number(&data, &size, 4) * 512;
	k.length = take_number(&data, &size, 4);
	i.offset = take_number(&data, &size, 4) * 512;
	i.length = take_number(&data, &size, 4);
	shimos_text_begin(&t, why, sizeof(why));
	err = shimos_params_command(to, sizeof(to), (const char *)data,
				    size > 300 ? 300 : (u32)size, 1, 2, &t);
	if (!err != !*why || (!err && !strstr(to, " panic=0 ")))
		abort();
	memset(head, 0, sizeof(head));
	memcpy(head, data, size < sizeof(head) ? size : sizeof(head));
	shimos_text_begin(&t, why, sizeof(why));
	err = shimos_bzimage_read(head, k.length, &b, &t);
	if (!err != !*why)
		abort();
	if (!err)
		check_place(&pool, &b, &k, &i);
	return 0;
}
