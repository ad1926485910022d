/* SPDX-License-Identifier: MIT */
/*
 * The slab's buddy allocator. Its metadata is in the core's own memory, so that
 * a program that overwrites the slab damages only its own messages. Metadata is
 * allocated as the slab is used, because most slabs are large and stay empty.
 */
#ifndef O2G_CORE_SLAB_H
#define O2G_CORE_SLAB_H

#include "core.h"

#define O2G_SLAB_UNIT 256u
#define O2G_SLAB_CHUNK 256u /* units whose metadata is allocated together */
#define O2G_SLAB_ORDERS 25  /* 256 bytes to 4 GiB */

struct o2g_slab_unit {
	u32 next, prev; /* links of its free list: unit + 1 */
	u8 order;	/* of the block that starts here */
	u8 state;
};

struct o2g_slab {
	const struct o2g_host *host;
	struct o2g_slab_unit **chunk; /* null: no block begins in the chunk */
	u32 units, chunks;
	u32 free[O2G_SLAB_ORDERS]; /* first unit + 1 of each order */
	u64 base;		   /* offset of the slab in the area */
};

int o2g_slab_make(struct o2g_slab *slab, const struct o2g_host *host, u64 base,
		  u64 size);
void o2g_slab_free(struct o2g_slab *slab);
/* Returns an offset in the area, or 0, which is never in the slab: the slab is
 * full, or there is no memory for metadata. */
u64 o2g_slab_take(struct o2g_slab *slab, u64 size);
void o2g_slab_give(struct o2g_slab *slab, u64 offset);
/* Takes the largest free block, of at least `least` bytes: its offset, or 0. */
u64 o2g_slab_borrow(struct o2g_slab *slab, u64 least, u64 *length);
/* Afterwards the program may release the block. */
void o2g_slab_lend(struct o2g_slab *slab, u64 offset);
/* Reclaims a lent block: 0, or -ENOENT if it was not lent. */
int o2g_slab_release(struct o2g_slab *slab, u64 offset);

#endif
