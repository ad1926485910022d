// SPDX-License-Identifier: MIT
#include "image.h"
#include "error.h"

#define PAGE 0x1000ull
#define LARGE 0x200000ull
#define NOBODY (8 * 1024 * 1024ull) /* kernel region without an image */
#define MOST 0x40000000ull	    /* one table of 2 MiB pages maps it */

static u64 up(u64 n, u64 to)
{
	return (n + to - 1) & ~(to - 1);
}

static int refuse(struct shimos_text *why, const char *what)
{
	shimos_text_add(why, "this is no image for this module: ");
	shimos_text_add(why, what);
	return -SHIMOS_EINVAL;
}

static int other(struct shimos_text *why, const char *what, u32 is, u32 wanted)
{
	shimos_text_add(why, "the image has ");
	shimos_text_add(why, what);
	shimos_text_add(why, " revision ");
	shimos_text_number(why, is);
	shimos_text_add(why, ", this module boots ");
	shimos_text_number(why, wanted);
	shimos_text_add(why, ": take both from one build of skep");
	return -SHIMOS_EINVAL;
}

int shimos_image_check(const void *data, u64 length, struct shimos_text *why)
{
	const struct skep_image *h = data;

	if (length < sizeof(*h) || h->magic != SKEP_IMAGE_MAGIC)
		return refuse(why, "it does not begin with SMS1");
	if (h->revision != SKEP_IMAGE_REVISION)
		return other(why, "header", h->revision, SKEP_IMAGE_REVISION);
	if (h->partition != SKEP_PARTITION_REVISION)
		return other(why, "partition", h->partition,
			     SKEP_PARTITION_REVISION);
	if (h->file_size != length || length > SKEP_IMAGE_MOST)
		return refuse(why, "its size is not what its header says");
	if (h->entry < sizeof(*h) || h->entry >= length)
		return refuse(why, "its entry lies outside of it");
	if (h->name[sizeof(h->name) - 1])
		return refuse(why, "its name does not end");
	if (!shimos_image_memory(h, 1))
		return refuse(why, "it wants more than 1 GiB for itself");
	return 0;
}

u64 shimos_image_memory(const struct skep_image *h, u32 cores)
{
	u64 need;

	if (!h)
		return NOBODY;
	if (h->memory > MOST || h->core_memory > MOST ||
	    cores > SKEP_PARTITION_CORES)
		return 0;
	need = shimos_image_free(h);
	if (need < h->memory)
		need = h->memory;
	need = up(need + cores * h->core_memory, LARGE);
	return need > MOST ? 0 : need;
}

u64 shimos_image_partition(const struct skep_image *h)
{
	return up(h->file_size, PAGE);
}

u64 shimos_image_free(const struct skep_image *h)
{
	return up(shimos_image_partition(h) + sizeof(struct skep_partition),
		  PAGE);
}
