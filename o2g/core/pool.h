/* SPDX-License-Identifier: MIT */
/*
 * Objects of one size with numbers, in chunks that are freed with the pool.
 * Each object begins with struct o2g_member. A number that is used again gets
 * another generation, so that a handle that the program made up or kept finds
 * nothing.
 */
#ifndef O2G_CORE_POOL_H
#define O2G_CORE_POOL_H

#include "core.h"

struct o2g_member {
	u32 index;
	u32 generation;
	u32 next_free; /* index + 1 */
	u32 used;
};

struct o2g_pool {
	const struct o2g_host *host;
	u8 **chunk;
	u32 size; /* bytes of an object */
	u32 most; /* maximum of objects */
	u32 made; /* objects in all chunks */
	u32 used;
	u32 free;   /* index + 1 of the first free one */
	u32 places; /* length of `chunk` */
};

void o2g_pool_make(struct o2g_pool *pool, const struct o2g_host *host, u32 size,
		   u32 most);
void o2g_pool_free(struct o2g_pool *pool);
/* Allocates the first chunk: 0 or -ENOMEM. */
int o2g_pool_warm(struct o2g_pool *pool);
/* Zeroed except for its o2g_member; 0: limit reached or no memory. */
void *o2g_pool_take(struct o2g_pool *pool);
void o2g_pool_give(struct o2g_pool *pool, void *object);
/* The object in use with this number, or 0. */
void *o2g_pool_at(struct o2g_pool *pool, u32 index);

#endif
