/* SPDX-License-Identifier: MIT */
/* Whether the bytes of a file are an image that this module can boot. */
#ifndef SHIMOS_IMAGE_H
#define SHIMOS_IMAGE_H

#include <skep/partition.h>

#include "text.h"

/* 0, or -errno and why. data is untrusted. */
int shimos_image_check(const void *data, u64 length, struct shimos_text *why);

/* What a partition has, for what its kernel region must hold. */
struct shimos_size {
	u32 cores, ranges;
	u64 bytes; /* of memory */
};

/* Bytes of the kernel region, in pages of 2 MiB; a null header means that the
 * image is not there yet. 0: too large.
 */
u64 shimos_image_memory(const struct skep_image *header,
			const struct shimos_size *size);

/* Offsets in the kernel region: struct skep_partition, its two tables, and what
 * follows.
 */
u64 shimos_image_partition(const struct skep_image *header);
u64 shimos_image_ranges(const struct skep_image *header);
u64 shimos_image_used(const struct skep_image *header, u32 ranges);
u64 shimos_image_free(const struct skep_image *header,
		      const struct shimos_size *size);

#endif
