/* SPDX-License-Identifier: MIT */
/*
 * Who has which part of the slab: a buddy allocator whose books are the core's
 * own, so that a program that writes over the slab spoils its messages alone.
 * They grow with the part that is used: most slabs are large and stay empty.
 */
#ifndef O2G_CORE_SLAB_H
#define O2G_CORE_SLAB_H

#include "core.h"

#define O2G_SLAB_UNIT 256u
#define O2G_SLAB_CHUNK 256u /* units whose books are made at once */
#define O2G_SLAB_ORDERS 25  /* 256 bytes to 4 GiB */

struct o2g_slab_unit {
	u32 next, prev; /* of its free list, + 1 */
	u8 order;	/* of the block that starts here */
	u8 state;
};

struct o2g_slab {
	const struct o2g_host *host;
	struct o2g_slab_unit **chunk; /* null: nothing begins in there */
	u32 units, chunks;
	u32 free[O2G_SLAB_ORDERS]; /* first unit + 1 */
	u64 base;		   /* offset of the slab in the area */
};

int o2g_slab_make(struct o2g_slab *slab, const struct o2g_host *host, u64 base,
		  u64 size);
void o2g_slab_free(struct o2g_slab *slab);
/* An offset in the area, or 0 (which is no place in a slab): full, or no memory
 * for the books. */
u64 o2g_slab_take(struct o2g_slab *slab, u64 size);
void o2g_slab_give(struct o2g_slab *slab, u64 offset);
/* The block is the program's to release from now on. */
void o2g_slab_lend(struct o2g_slab *slab, u64 offset);
/* Takes a lent block back: 0, or -ENOENT for what was not lent. */
int o2g_slab_release(struct o2g_slab *slab, u64 offset);

#endif
