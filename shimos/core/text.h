/* SPDX-License-Identifier: MIT */
/* Builds messages in a buffer of fixed size without printf. */
#ifndef SHIMOS_TEXT_H
#define SHIMOS_TEXT_H

#include <skep/types.h>

/* Text that does not fit is cut; it always ends with a NUL. */
struct shimos_text {
	char *at;
	u32 size, length;
};

void shimos_text_begin(struct shimos_text *t, char *at, u32 size);
void shimos_text_add(struct shimos_text *t, const char *s);
void shimos_text_number(struct shimos_text *t, u64 n);
void shimos_text_bytes(struct shimos_text *t,
		       u64 n); /* in MiB if it is a multiple, else in bytes */
void shimos_text_cpus(struct shimos_text *t, const u64 *map, u32 words);

#endif
