/* SPDX-License-Identifier: MIT */
/* Whether the bytes of a file are an image that this module can boot. */
#ifndef SHIMOS_IMAGE_H
#define SHIMOS_IMAGE_H

#include <skep/partition.h>

#include "text.h"

/* 0, or -errno and why. data is what a file or a user gave: hostile. */
int shimos_image_check(const void *data, u64 length, struct shimos_text *why);

/* Bytes of the kernel region for so many cores, whole pages of 2 MiB; a null
 * header stands for an image that is not there yet. 0: more than can be.
 */
u64 shimos_image_memory(const struct skep_image *header, u32 cores);

/* Where struct skep_partition lies in the kernel region, and what follows. */
u64 shimos_image_partition(const struct skep_image *header);
u64 shimos_image_free(const struct skep_image *header);

#endif
