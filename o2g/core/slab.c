/* SPDX-License-Identifier: MIT */
/* The books of the slab; see slab.h. Guarded by the engine's lock. */
#include "slab.h"
#include "error.h"

enum { INSIDE, FREE, TAKEN, LENT };

static void put_free(struct o2g_slab *slab, u32 at, u8 order)
{
	struct o2g_slab_unit *unit = &slab->unit[at];

	unit->state = FREE;
	unit->order = order;
	unit->prev = 0;
	unit->next = slab->free[order];
	if (unit->next)
		slab->unit[unit->next - 1].prev = at + 1;
	slab->free[order] = at + 1;
}

static void get_free(struct o2g_slab *slab, u32 at)
{
	struct o2g_slab_unit *unit = &slab->unit[at];

	if (unit->next)
		slab->unit[unit->next - 1].prev = unit->prev;
	if (unit->prev)
		slab->unit[unit->prev - 1].next = unit->next;
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
	if (!slab->units)
		return 0;
	slab->unit =
		host->alloc(host->ctx, (u64)slab->units * sizeof(*slab->unit));
	if (!slab->unit)
		return -O2G_ENOMEM;
	while (at < slab->units) {
		u8 order = O2G_SLAB_ORDERS - 1;

		while (at & ((1u << order) - 1) ||
		       slab->units - at < 1u << order)
			order--;
		put_free(slab, at, order);
		at += 1u << order;
	}
	return 0;
}

void o2g_slab_free(struct o2g_slab *slab)
{
	if (slab->unit)
		slab->host->free(slab->host->ctx, slab->unit,
				 (u64)slab->units * sizeof(*slab->unit));
	slab->unit = 0;
	slab->units = 0;
}

u64 o2g_slab_take(struct o2g_slab *slab, u64 size)
{
	u8 order = 0, from;
	u32 at;

	while (order < O2G_SLAB_ORDERS && (u64)O2G_SLAB_UNIT << order < size)
		order++;
	for (from = order; from < O2G_SLAB_ORDERS && !slab->free[from];)
		from++;
	if (!slab->units || from >= O2G_SLAB_ORDERS)
		return 0;
	at = slab->free[from] - 1;
	get_free(slab, at);
	while (from > order) {
		from--;
		put_free(slab, at + (1u << from), from);
	}
	slab->unit[at].state = TAKEN;
	slab->unit[at].order = order;
	return slab->base + (u64)at * O2G_SLAB_UNIT;
}

void o2g_slab_give(struct o2g_slab *slab, u64 offset)
{
	u32 at = (u32)((offset - slab->base) / O2G_SLAB_UNIT);
	u8 order = slab->unit[at].order;

	slab->unit[at].state = INSIDE;
	while (order + 1 < O2G_SLAB_ORDERS) {
		u32 buddy = at ^ (1u << order);

		if (buddy >= slab->units || slab->unit[buddy].state != FREE ||
		    slab->unit[buddy].order != order)
			break;
		get_free(slab, buddy);
		at &= ~(1u << order);
		order++;
	}
	put_free(slab, at, order);
}

void o2g_slab_lend(struct o2g_slab *slab, u64 offset)
{
	slab->unit[(offset - slab->base) / O2G_SLAB_UNIT].state = LENT;
}

int o2g_slab_release(struct o2g_slab *slab, u64 offset)
{
	u64 at = (offset - slab->base) / O2G_SLAB_UNIT;

	if (offset < slab->base || at >= slab->units ||
	    offset != slab->base + at * O2G_SLAB_UNIT ||
	    slab->unit[at].state != LENT)
		return -O2G_ENOENT;
	o2g_slab_give(slab, offset);
	return 0;
}
