/* SPDX-License-Identifier: MIT */
/*
 * Images: the program, its loader, and the libraries that they map. An image
 * is rewritten once, and then found by a program counter.
 */
#ifndef BEE_CORE_IMAGE_H
#define BEE_CORE_IMAGE_H

#include "bee/core/bee.h"

/* The whole of a file into memory of bee's own, for bee_os_free. 0, or an
 * errno; -ENOEXEC: it is no regular file, empty, or above 2 GiB. */
s64 bee_image_read(const struct abi_host *os, s32 handle, u8 **bytes, u64 *len);

/* Rewriting (image.c) ------------------------------------------------------ */

/* image->plan is made, and the text is in memory, writable. */
struct bee_work {
	struct bee_image *image;
	const struct abi_host *os;
	const u8 *file; /* the whole of it */
	u64 file_len;
	/* Where stubs may be, at its end; room_end 0: behind the segments. */
	u64 room, room_end;
	u64 most;	   /* bytes that they may take */
	const char *cache; /* folder, or NULL */
	u32 no_digest;	   /* of the file: neither report nor cache needs it */
	u64 need;	   /* out, on -ENOMEM: bytes that stubs need */
	char why[240];	   /* out, on error: a sentence, or empty */
};

/* 0: the stubs are protected, the text is still writable. Else an errno after
 * which nothing of the stubs is left. */
int bee_image_rewrite(struct bee_work *w);
/* Frees what rewriting allocated. */
void bee_image_free(struct bee_image *image);

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
