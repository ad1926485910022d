/* SPDX-License-Identifier: MIT */
/*
 * Where in the pool the kernel runs and its initial file system lies. Both came
 * as files, which may lie across several ranges; the kernel and the file system
 * need contiguous memory.
 */
#ifndef SHIMOS_LINUX_PLACE_H
#define SHIMOS_LINUX_PLACE_H

#include "bzimage.h"
#include "shimos/core/ranges.h"

struct shimos_place_file {
	u64 offset, length; /* in the pool, in bytes */
};

struct shimos_place {
	u64 kernel; /* physical: where the code is copied to */
	u64 initrd; /* physical: where the file system is, */
	int move;   /* if it was copied there */
};

/* 0, or -errno with the reason in `why`. The pool's ranges are numbered; the
 * files are untrusted. */
int shimos_place_make(const struct shimos_ranges *pool,
		      const struct shimos_bzimage *b,
		      const struct shimos_place_file *kernel,
		      const struct shimos_place_file *initrd,
		      struct shimos_place *out, struct shimos_text *why);

/* Whether a file lies in the pool, at a page's beginning. */
int shimos_place_check(const struct shimos_ranges *pool,
		       const struct shimos_place_file *file,
		       struct shimos_text *why);

#endif
