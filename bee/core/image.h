/* SPDX-License-Identifier: MIT */
/*
 * Images: the program, its loader, and the libraries that they map. An image is
 * rewritten once, and can then be found by a program counter.
 */
#ifndef BEE_CORE_IMAGE_H
#define BEE_CORE_IMAGE_H

#include "bee/core/bee.h"

/* Reads a complete file into memory of bee's own, to be freed by bee_os_free.
 * 0, or an errno; -ENOEXEC: it is no regular file, empty, or larger than 2
 * GiB. */
s64 bee_image_read(const struct abi_host *os, s32 handle, u8 **bytes, u64 *len,
		   struct bee_file_id *id);

/* The SHA-256 of such a file. 0 or an errno. */
s64 bee_file_digest(const struct abi_host *os, const char *path, u8 digest[32]);

/* Rewriting (image.c) ------------------------------------------------------ */

/* image->plan is complete, and the text is in writable memory. */
struct bee_work {
	struct bee_image *image;
	const struct abi_host *os;
	const u8 *file; /* the complete file */
	u64 file_len;
	/* Where stubs may be, at its end; room_end 0: after the segments. */
	u64 room, room_end;
	u32 exact;	   /* they must fill it, as they did before */
	u64 most;	   /* maximum of bytes for stubs */
	const char *cache; /* folder, or NULL */
	/* neither report, cache nor snapshots need the file's digest */
	u32 no_digest;
	u64 need;      /* out, with -ENOMEM: bytes that stubs need */
	char why[240]; /* out, after an error: a sentence, or empty */
};

/* 0: the stubs are protected, the text is still writable. Otherwise an errno,
 * and the stubs have been released. */
int bee_image_rewrite(struct bee_work *w);
/* Frees what rewriting allocated. */
void bee_image_free(struct bee_image *image);

/* Finding (images.c) ------------------------------------------------------- */

/*
 * Adds a rewritten image; from now on its stubs can be found. Only one caller
 * at a time: the loader, later calls under abi's lock of the address map.
 */
int bee_images_add(struct bee_image *image);
/* The text in [start, end) was unmapped. */
void bee_images_drop(u64 start, u64 end);
/* Removes an image that has no text any more, and waits until no reader uses
 * it. NULL: there is none. */
struct bee_image *bee_images_take(void);

/*
 * The image whose stubs, or whose text, contain pc, or NULL. It remains until
 * bee_images_put, which must be called in each case. Takes no lock, so signal
 * handlers may call it.
 */
const struct bee_image *bee_images_get_stub(u64 pc);
const struct bee_image *bee_images_get_text(u64 pc);
void bee_images_put(void);
/*
 * Visits end when `visit` returns other than 0, and return that. No image is
 * taken while they run.
 */
int bee_images_visit(int (*visit)(void *to, const struct bee_image *image),
		     void *to);
/* The text of an image, and its stubs: whole pages. */
int bee_image_visit_text(const struct bee_image *image,
			 int (*visit)(void *to, u64 addr, u64 len), void *to);
/* The same for all images. */
int bee_text_visit(int (*visit)(void *to, u64 addr, u64 len), void *to);
/* Whether [start, end) touches text or stubs of an image. */
int bee_text_meets(u64 start, u64 end);
/* The end of the text or stubs that contain `at`; `at`: there are none. */
u64 bee_text_end(u64 at);

/*
 * For the child of a fork that is a new process: its images, while no other
 * thread changes them. The child has the same bee.image and bee.loader, and the
 * text and stubs are in memory.
 */
u64 bee_images_size(void);
void bee_images_save(u8 *to);
/* 0 or -ENOMEM. */
int bee_images_restore(const u8 *from);

#endif
