/* SPDX-License-Identifier: MIT */
/*
 * Images: the program, its loader, and the libraries that they map. An image
 * is rewritten once, and then found by a program counter.
 */
#ifndef BEE_CORE_IMAGE_H
#define BEE_CORE_IMAGE_H

#include "bee/core/bee.h"

/* Finding (images.c) ------------------------------------------------------- */

/*
 * Enters a rewritten image; from now on its stubs are known. Callers take
 * turns: the loader, then calls under abi's lock of the address map.
 */
int bee_images_add(struct bee_image *image);
/* Text in [start, end) is gone. */
void bee_images_drop(u64 start, u64 end);
/* An image without text, taken out: no reader has it any more. NULL: none. */
struct bee_image *bee_images_take(void);

/*
 * The image whose stubs or whose text hold pc, or NULL. It stays until
 * bee_images_put, which follows in each case. No lock: for signal handlers.
 */
const struct bee_image *bee_images_get_stub(u64 pc);
const struct bee_image *bee_images_get_text(u64 pc);
void bee_images_put(void);
/* Image number `i` of those that are there now, for reports; NULL: no more. */
const struct bee_image *bee_images_at(u32 i);

#endif
