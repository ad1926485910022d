// SPDX-License-Identifier: MIT
#include "image.h"
#include "base/errno.h"

#define PAGE 0x1000ull
#define LARGE 0x200000ull
#define LINE 64ull
#define GIB 0x40000000ull
#define MOST GIB	   /* what one table of 2 MiB pages maps */
#define BYTES (1ull << 52) /* physical address space of a processor */
#define NOBODY 0x780000ull /* size of the kernel region without an image */
#define NOBODY_CORE 0x10000ull
#define NOBODY_GIB 0x10000ull

static u64 round_up_to(u64 n, u64 to)
{
	return (n + to - 1) & ~(to - 1);
}

static int refuse_image(struct shimos_text *why, const char *what)
{
	shimos_text_add(why, "this image is not for this module:  ");
	shimos_text_add(why, what);
	return -LINUX_EINVAL;
}

static int refuse_revision(struct shimos_text *why, const char *what, u32 is,
			   u32 wanted)
{
	shimos_text_add(why, "the image has ");
	shimos_text_add(why, what);
	shimos_text_add(why, " revision ");
	shimos_text_number(why, is);
	shimos_text_add(why, ", this module boots ");
	shimos_text_number(why, wanted);
	shimos_text_add(why, ": use both from one build of skep");
	return -LINUX_EINVAL;
}

int shimos_image_check(const void *data, u64 length, struct shimos_text *why)
{
	const struct shimos_size least = {.cores = 1, .ranges = 1};
	const struct skep_image *h = data;

	if (length < sizeof(*h) || h->magic != SKEP_IMAGE_MAGIC)
		return refuse_image(why, "it does not begin with SMS1");
	if (h->revision != SKEP_IMAGE_REVISION)
		return refuse_revision(why, "header", h->revision,
				       SKEP_IMAGE_REVISION);
	if (h->partition != SKEP_PARTITION_REVISION)
		return refuse_revision(why, "partition", h->partition,
				       SKEP_PARTITION_REVISION);
	if (h->file_size != length || length > SKEP_IMAGE_MAX)
		return refuse_image(why,
				    "its size is not what its header says");
	if (h->entry < sizeof(*h) || h->entry >= length)
		return refuse_image(why, "its entry lies outside of it");
	if (h->name[sizeof(h->name) - 1])
		return refuse_image(why, "its name has no terminating NUL");
	if (h->flags & ~(u32)(SKEP_IMAGE_MARKS | SKEP_IMAGE_LOW))
		return refuse_image(why, "it has an unknown flag");
	if (!shimos_image_memory(h, &least))
		return refuse_image(why, "it needs more than 1 GiB for itself");
	return 0;
}

static u64 gibs_of(u64 bytes)
{
	return (bytes + GIB - 1) / GIB;
}

u64 shimos_image_memory(const struct skep_image *h,
			const struct shimos_size *size)
{
	u64 need;

	if (size->cores > SKEP_PARTITION_CORES ||
	    size->ranges > SKEP_PARTITION_RANGES || size->bytes > BYTES)
		return 0;
	if (!h)
		return round_up_to(NOBODY + size->cores * NOBODY_CORE +
					   gibs_of(size->bytes) * NOBODY_GIB,
				   LARGE);
	if (h->memory > MOST || h->core_memory > MOST || h->gib_memory > MOST)
		return 0;
	need = shimos_image_free(h, size);
	if (need < h->memory)
		need = h->memory;
	need += (u64)size->cores * h->core_memory;
	need = round_up_to(need + gibs_of(size->bytes) * h->gib_memory, LARGE);
	return need > MOST ? 0 : need;
}

u64 shimos_image_partition(const struct skep_image *h)
{
	return round_up_to(h->file_size, PAGE);
}

u64 shimos_image_ranges(const struct skep_image *h)
{
	return shimos_image_partition(h) +
	       round_up_to(sizeof(struct skep_partition), LINE);
}

u64 shimos_image_used(const struct skep_image *h, u32 ranges)
{
	return shimos_image_ranges(h) +
	       round_up_to((u64)ranges * sizeof(struct skep_partition_range),
			   LINE);
}

u64 shimos_image_free(const struct skep_image *h,
		      const struct shimos_size *size)
{
	u64 words = (size->bytes / LARGE + 63) / 64;

	return round_up_to(shimos_image_used(h, size->ranges) + words * 8,
			   PAGE);
}
