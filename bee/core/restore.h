/* SPDX-License-Identifier: MIT */
/* What restore.c and reopen.c share. */
#ifndef BEE_CORE_RESTORE_H
#define BEE_CORE_RESTORE_H

#include "bee/core/snapshot.h"

struct restore {
	const struct abi_host *os;
	const struct bee_snapshot *s;
	char *why; /* a sentence, if it fails */
	u64 size;
};

/* Both write `why` and return -1. */
int bee_restore_fail(struct restore *r, const char *before, const char *name,
		     const char *after);
int bee_restore_damage(struct restore *r, const char *what);

/* reopen.c: all descriptions and their numbers. 0, or -1 after
 * bee_restore_fail.
 */
int bee_restore_files(struct restore *r);

#endif
