/* SPDX-License-Identifier: MIT */
/*
 * The table of images. There is one writer at a time (see image.h). Readers
 * take no lock, because signal handlers read. Instead they are counted, and
 * whoever removes an image waits until there is no reader: later readers do not
 * find the image.
 */
#include "base/errno.h"
#include "bee/core/image.h"

#define IMAGES_MAX 2048

static struct bee_image *table[IMAGES_MAX]; /* stored and loaded as atomics */
/* number of slots in use or used before */
static u32 used;
static u32 readers;

static struct bee_image *image_at(u32 slot)
{
	return __atomic_load_n(&table[slot], __ATOMIC_SEQ_CST);
}

int bee_images_add(struct bee_image *image)
{
	u32 i;

	for (i = 0; i < used && table[i]; i++)
		;
	if (i == IMAGES_MAX)
		return -LINUX_ENFILE;
	__atomic_store_n(&table[i], image, __ATOMIC_SEQ_CST);
	if (i == used)
		__atomic_store_n(&used, i + 1, __ATOMIC_SEQ_CST);
	return 0;
}

void bee_images_drop(u64 start, u64 end)
{
	struct bee_image *image;
	u64 from, to;
	u32 i;

	for (i = 0; i < used; i++) {
		image = table[i];
		if (!image || !image->text_left)
			continue;
		from = start > image->text ? start : image->text;
		to = end < image->text_end ? end : image->text_end;
		if (from < to)
			image->text_left -= to - from;
	}
}

struct bee_image *bee_images_take(void)
{
	struct bee_image *image;
	u32 i;

	for (i = 0; i < used; i++) {
		image = table[i];
		if (!image || image->text_left)
			continue;
		__atomic_store_n(&table[i], 0, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&readers, __ATOMIC_SEQ_CST))
			bee.os->thread_yield();
		return image;
	}
	return 0;
}

void bee_images_forked(void)
{
	__atomic_store_n(&readers, 0, __ATOMIC_SEQ_CST);
}

const struct bee_image *bee_images_get_stub(u64 pc)
{
	u32 i, n;

	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	n = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
	for (i = 0; i < n; i++) {
		const struct bee_image *image = image_at(i);

		if (image && pc >= image->stubs && pc < image->stubs_end)
			return image;
	}
	return 0;
}

const struct bee_image *bee_images_get_text(u64 pc)
{
	u32 i, n;

	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	n = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
	for (i = 0; i < n; i++) {
		const struct bee_image *image = image_at(i);

		if (image && pc >= image->plan.start && pc < image->plan.end)
			return image;
	}
	return 0;
}

void bee_images_put(void)
{
	__atomic_fetch_sub(&readers, 1, __ATOMIC_SEQ_CST);
}

const struct bee_image *bee_images_at(u32 i)
{
	u32 slot;

	for (slot = 0; slot < used; slot++)
		if (table[slot] && !i--)
			return table[slot];
	return 0;
}
