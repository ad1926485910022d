/* SPDX-License-Identifier: MIT */
/* Numbered objects; see pool.h. Guarded by the engine's lock. */
#include "pool.h"
#include "base/errno.h"

#define PER_CHUNK 32u
#define FIRST_PLACES 16u

void o2g_pool_make(struct o2g_pool *pool, const struct o2g_host *host, u32 size,
		   u32 most)
{
	pool->host = host;
	pool->size = (size + 15) & ~15u;
	pool->most = most;
}

static struct o2g_member *chunk_member(struct o2g_pool *pool, u32 index)
{
	return (struct o2g_member *)(pool->chunk[index / PER_CHUNK] +
				     (u64)(index % PER_CHUNK) * pool->size);
}

void o2g_pool_free(struct o2g_pool *pool)
{
	const struct o2g_host *host = pool->host;

	for (u32 i = 0; i < pool->made / PER_CHUNK; i++)
		host->free(host->ctx, pool->chunk[i],
			   (u64)pool->size * PER_CHUNK);
	if (pool->chunk)
		host->free(host->ctx, pool->chunk,
			   (u64)pool->places * sizeof(void *));
	pool->chunk = 0;
	pool->made = 0;
}

static int grow_places(struct o2g_pool *pool)
{
	const struct o2g_host *host = pool->host;
	u32 places = pool->places ? pool->places * 2 : FIRST_PLACES;
	u8 **chunk = host->alloc(host->ctx, (u64)places * sizeof(void *));

	if (!chunk)
		return 0;
	for (u32 i = 0; i < pool->places; i++)
		chunk[i] = pool->chunk[i];
	if (pool->chunk)
		host->free(host->ctx, pool->chunk,
			   (u64)pool->places * sizeof(void *));
	pool->chunk = chunk;
	pool->places = places;
	return 1;
}

static int grow_chunks(struct o2g_pool *pool)
{
	const struct o2g_host *host = pool->host;
	u32 chunks = pool->made / PER_CHUNK;

	if (chunks == pool->places && !grow_places(pool))
		return 0;
	pool->chunk[chunks] =
		host->alloc(host->ctx, (u64)pool->size * PER_CHUNK);
	if (!pool->chunk[chunks])
		return 0;
	for (u32 i = PER_CHUNK; i-- > 0;) {
		struct o2g_member *member = chunk_member(pool, pool->made + i);

		member->index = pool->made + i;
		member->next_free = pool->free;
		pool->free = member->index + 1;
	}
	pool->made += PER_CHUNK;
	return 1;
}

int o2g_pool_warm(struct o2g_pool *pool)
{
	return pool->free || grow_chunks(pool) ? 0 : -LINUX_ENOMEM;
}

void *o2g_pool_take(struct o2g_pool *pool)
{
	struct o2g_member *member;

	if (pool->used >= pool->most || (!pool->free && !grow_chunks(pool)))
		return 0;
	member = chunk_member(pool, pool->free - 1);
	pool->free = member->next_free;
	pool->used++;
	member->used = 1;
	member->generation++;
	__builtin_memset(member + 1, 0, pool->size - sizeof(*member));
	return member;
}

void o2g_pool_give(struct o2g_pool *pool, void *object)
{
	struct o2g_member *member = object;

	member->used = 0;
	member->next_free = pool->free;
	pool->free = member->index + 1;
	pool->used--;
}

void *o2g_pool_at(struct o2g_pool *pool, u32 index)
{
	struct o2g_member *member;

	if (index >= pool->made)
		return 0;
	member = chunk_member(pool, index);
	return member->used ? member : 0;
}
