/* SPDX-License-Identifier: MIT */
/* Checks whether a file is an image that this module can boot. */
#ifndef SHIMOS_IMAGE_H
#define SHIMOS_IMAGE_H

#include <skep/partition.h>

#include "text.h"

/* 0, or -errno with the reason in `why`. data is untrusted. */
int shimos_image_check(const void *data, u64 length, struct shimos_text *why);

/* What a partition has: the size of its kernel region depends on it. */
struct shimos_size {
	u32 cores, ranges;
	u64 bytes; /* of memory */
};

/* Bytes of the kernel region, in pages of 2 MiB. A null header means that there
 * is no image yet. 0: too large. */
u64 shimos_image_memory(const struct skep_image *header,
			const struct shimos_size *size);

/* Offsets in the kernel region: of struct skep_partition, of its two tables,
 * and of what follows them. */
u64 shimos_image_partition(const struct skep_image *header);
u64 shimos_image_ranges(const struct skep_image *header);
u64 shimos_image_used(const struct skep_image *header, u32 ranges);
u64 shimos_image_free(const struct skep_image *header,
		      const struct shimos_size *size);

#endif
