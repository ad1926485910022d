/* SPDX-License-Identifier: MIT */
/* The slab's allocator; see slab.h. Guarded by the engine's lock. */
#include "slab.h"
#include "base/errno.h"

enum { INSIDE, FREE, TAKEN, LENT };

/* The metadata of a unit; null if no block can begin there. */
static struct o2g_slab_unit *unit_at(const struct o2g_slab *slab, u32 at)
{
	struct o2g_slab_unit *chunk = slab->chunk[at / O2G_SLAB_CHUNK];

	return chunk ? &chunk[at % O2G_SLAB_CHUNK] : 0;
}

#define CHUNK_SIZE (O2G_SLAB_CHUNK * sizeof(struct o2g_slab_unit))

/* Allocates the metadata for a block at this unit. */
static int chunk_make(struct o2g_slab *slab, u32 at)
{
	struct o2g_slab_unit **chunk = &slab->chunk[at / O2G_SLAB_CHUNK];

	if (!*chunk)
		*chunk = slab->host->alloc(slab->host->ctx, CHUNK_SIZE);
	return *chunk ? 0 : -LINUX_ENOMEM;
}

static void put_free(struct o2g_slab *slab, u32 at, u8 order)
{
	struct o2g_slab_unit *unit = unit_at(slab, at);

	unit->state = FREE;
	unit->order = order;
	unit->prev = 0;
	unit->next = slab->free[order];
	if (unit->next)
		unit_at(slab, unit->next - 1)->prev = at + 1;
	slab->free[order] = at + 1;
}

static void get_free(struct o2g_slab *slab, u32 at)
{
	struct o2g_slab_unit *unit = unit_at(slab, at);

	if (unit->next)
		unit_at(slab, unit->next - 1)->prev = unit->prev;
	if (unit->prev)
		unit_at(slab, unit->prev - 1)->next = unit->next;
	else
		slab->free[unit->order] = unit->next;
	unit->state = INSIDE;
}

int o2g_slab_make(struct o2g_slab *slab, const struct o2g_host *host, u64 base,
		  u64 size)
{
	u32 at = 0;

	slab->host = host;
	slab->base = base;
	slab->units = (u32)(size / O2G_SLAB_UNIT);
	slab->chunks = (slab->units + O2G_SLAB_CHUNK - 1) / O2G_SLAB_CHUNK;
	if (!slab->units)
		return 0;
	slab->chunk = host->alloc(host->ctx,
				  (u64)slab->chunks * sizeof(*slab->chunk));
	if (!slab->chunk)
		return -LINUX_ENOMEM;
	while (at < slab->units) {
		u8 order = O2G_SLAB_ORDERS - 1;

		while (at & ((1u << order) - 1) ||
		       slab->units - at < 1u << order)
			order--;
		if (chunk_make(slab, at))
			return -LINUX_ENOMEM;
		put_free(slab, at, order);
		at += 1u << order;
	}
	return 0;
}

void o2g_slab_free(struct o2g_slab *slab)
{
	const struct o2g_host *host = slab->host;

	if (!slab->chunk)
		return;
	for (u32 i = 0; i < slab->chunks; i++)
		if (slab->chunk[i])
			host->free(host->ctx, slab->chunk[i], CHUNK_SIZE);
	host->free(host->ctx, slab->chunk,
		   (u64)slab->chunks * sizeof(*slab->chunk));
	slab->chunk = 0;
	slab->units = 0;
}

/* Allocates the metadata of all halves that result when a block is split. */
static int halves_make(struct o2g_slab *slab, u32 at, u8 from, u8 order)
{
	while (from-- > order)
		if (chunk_make(slab, at + (1u << from)))
			return -LINUX_ENOMEM;
	return 0;
}

u64 o2g_slab_take(struct o2g_slab *slab, u64 size)
{
	struct o2g_slab_unit *unit;
	u8 order = 0, from;
	u32 at;

	while (order < O2G_SLAB_ORDERS && (u64)O2G_SLAB_UNIT << order < size)
		order++;
	for (from = order; from < O2G_SLAB_ORDERS && !slab->free[from];)
		from++;
	if (!slab->units || from >= O2G_SLAB_ORDERS)
		return 0;
	at = slab->free[from] - 1;
	if (halves_make(slab, at, from, order))
		return 0;
	get_free(slab, at);
	while (from > order) {
		from--;
		put_free(slab, at + (1u << from), from);
	}
	unit = unit_at(slab, at);
	unit->state = TAKEN;
	unit->order = order;
	return slab->base + (u64)at * O2G_SLAB_UNIT;
}

void o2g_slab_give(struct o2g_slab *slab, u64 offset)
{
	u32 at = (u32)((offset - slab->base) / O2G_SLAB_UNIT);
	struct o2g_slab_unit *unit = unit_at(slab, at);
	u8 order = unit->order;

	unit->state = INSIDE;
	while (order + 1 < O2G_SLAB_ORDERS) {
		u32 buddy = at ^ (1u << order);

		unit = buddy < slab->units ? unit_at(slab, buddy) : 0;
		if (!unit || unit->state != FREE || unit->order != order)
			break;
		get_free(slab, buddy);
		at &= ~(1u << order);
		order++;
	}
	put_free(slab, at, order);
}

void o2g_slab_lend(struct o2g_slab *slab, u64 offset)
{
	u32 at = (u32)((offset - slab->base) / O2G_SLAB_UNIT);

	unit_at(slab, at)->state = LENT;
}

int o2g_slab_release(struct o2g_slab *slab, u64 offset)
{
	u64 at = (offset - slab->base) / O2G_SLAB_UNIT;
	struct o2g_slab_unit *unit;

	if (offset < slab->base || at >= slab->units ||
	    offset != slab->base + at * O2G_SLAB_UNIT)
		return -LINUX_ENOENT;
	unit = unit_at(slab, (u32)at);
	if (!unit || unit->state != LENT)
		return -LINUX_ENOENT;
	o2g_slab_give(slab, offset);
	return 0;
}

u64 o2g_slab_borrow(struct o2g_slab *slab, u64 least, u64 *length)
{
	u8 order = O2G_SLAB_ORDERS;

	while (order-- > 0 && (u64)O2G_SLAB_UNIT << order >= least) {
		const u32 at = slab->free[order] - 1;

		if (!slab->free[order])
			continue;
		get_free(slab, at);
		unit_at(slab, at)->state = TAKEN;
		*length = (u64)O2G_SLAB_UNIT << order;
		return slab->base + (u64)at * O2G_SLAB_UNIT;
	}
	return 0;
}
