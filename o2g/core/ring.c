/* SPDX-License-Identifier: MIT */
/*
 * The rings. The engine's lock guards the engine's side; the area is shared
 * with a program that may write anything there at any time.
 */
#include "ring.h"
#include "base/errno.h"
#include "order.h"

static int entries_fit(u32 entries)
{
	return entries >= O2G_RING_MIN && entries <= O2G_RING_MAX &&
	       !(entries & (entries - 1));
}

static u64 round_up(u64 size)
{
	return (size + 4095) & ~4095ull;
}

static int lay_out_area(struct o2g_area *area, u32 sq_entries, u32 cq_entries,
			u64 outbox, u64 slab)
{
	if (!entries_fit(sq_entries) || !entries_fit(cq_entries) ||
	    outbox > O2G_AREA_PART || slab > O2G_AREA_PART)
		return -LINUX_EINVAL;
	area->magic = O2G_RING_MAGIC;
	area->revision = O2G_RING_REVISION;
	area->sq_entries = sq_entries;
	area->cq_entries = cq_entries;
	area->sqe = sizeof(*area);
	area->cqe = area->sqe + (u64)sq_entries * sizeof(struct o2g_sqe);
	area->outbox =
		round_up(area->cqe + (u64)cq_entries * sizeof(struct o2g_cqe));
	area->outbox_size = outbox;
	area->slab = round_up(area->outbox + outbox);
	area->slab_size = slab;
	area->size = round_up(area->slab + slab);
	return 0;
}

int o2g_area_size(u32 sq_entries, u32 cq_entries, u64 outbox, u64 slab,
		  u64 *size)
{
	struct o2g_area area;
	int rc = lay_out_area(&area, sq_entries, cq_entries, outbox, slab);

	if (!rc)
		*size = area.size;
	return rc;
}

int o2g_area_format(struct o2g_area *area, u32 sq_entries, u32 cq_entries,
		    u64 outbox, u64 slab)
{
	return lay_out_area(area, sq_entries, cq_entries, outbox, slab);
}

int o2g_ring_open(struct o2g_ring *ring, struct o2g_area *area)
{
	struct o2g_area want;

	if (area->magic != O2G_RING_MAGIC ||
	    area->revision != O2G_RING_REVISION ||
	    lay_out_area(&want, area->sq_entries, area->cq_entries,
			 area->outbox_size, area->slab_size) ||
	    want.sqe != area->sqe || want.cqe != area->cqe ||
	    want.outbox != area->outbox || want.slab != area->slab ||
	    want.size != area->size)
		return -LINUX_EINVAL;
	ring->area = area;
	ring->sqe = (struct o2g_sqe *)((u8 *)area + want.sqe);
	ring->cqe = (struct o2g_cqe *)((u8 *)area + want.cqe);
	ring->sq_entries = want.sq_entries;
	ring->cq_entries = want.cq_entries;
	ring->outbox = want.outbox;
	ring->outbox_size = want.outbox_size;
	ring->slab = want.slab;
	ring->slab_size = want.slab_size;
	return 0;
}

int o2g_ring_waiting(const struct o2g_ring *ring)
{
	u32 n = o2g_load_acquire(&ring->area->sq.tail) - ring->sq_head;

	return n <= ring->sq_entries ? (int)n : -LINUX_EPROTO;
}

void o2g_ring_look(const struct o2g_ring *ring, struct o2g_sqe *sqe)
{
	const u32 at = ring->sq_head & (ring->sq_entries - 1);
	const u64 *from = (const u64 *)&ring->sqe[at];

	/* Each word is read only once, so that the value that is checked is the
	 * value that is used. */
	for (u32 i = 0; i < sizeof(*sqe) / 8; i++) {
		const u64 word = o2g_load(&from[i]);

		__builtin_memcpy((u8 *)sqe + i * 8, &word, 8);
	}
}

void o2g_ring_next(struct o2g_ring *ring)
{
	o2g_store_release(&ring->area->sq.head, ++ring->sq_head);
}

/* A head that is ahead of the tail means a faulty program: counts as full. */
int o2g_ring_room(struct o2g_ring *ring)
{
	if (ring->cq_tail - ring->cq_head < ring->cq_entries)
		return 1;
	ring->cq_head = o2g_load_acquire(&ring->area->cq.head);
	return ring->cq_tail - ring->cq_head < ring->cq_entries;
}

int o2g_ring_put(struct o2g_ring *ring, const struct o2g_cqe *cqe)
{
	if (!o2g_ring_room(ring))
		return 0;
	ring->cqe[ring->cq_tail & (ring->cq_entries - 1)] = *cqe;
	o2g_store_release(&ring->area->cq.tail, ++ring->cq_tail);
	return 1;
}

int o2g_ring_ask(struct o2g_ring *ring, u32 flags)
{
	const u32 added = flags & ~ring->flags;

	if (flags == ring->flags)
		return 0;
	ring->flags = flags;
	o2g_store(&ring->area->sq.flags, flags);
	if (!added)
		return 0;
	o2g_full_barrier();
	return 1;
}

int o2g_ring_wakes(struct o2g_ring *ring)
{
	o2g_full_barrier();
	return (o2g_load(&ring->area->cq.flags) & O2G_NEED_WAKE) != 0;
}

int o2g_ring_submit(struct o2g_area *area, const struct o2g_sqe *sqe)
{
	struct o2g_sqe *ring = (struct o2g_sqe *)((u8 *)area + area->sqe);
	const u32 tail = o2g_load(&area->sq.tail);

	if (tail - o2g_load_acquire(&area->sq.head) >= area->sq_entries)
		return 0;
	ring[tail & (area->sq_entries - 1)] = *sqe;
	o2g_store_release(&area->sq.tail, tail + 1);
	return 1;
}

int o2g_ring_kicks(struct o2g_area *area)
{
	o2g_full_barrier();
	return (o2g_load(&area->sq.flags) & O2G_NEED_KICK) != 0;
}

int o2g_ring_releases(struct o2g_area *area)
{
	o2g_full_barrier();
	return (o2g_load(&area->sq.flags) & O2G_NEED_BODIES) != 0;
}

int o2g_ring_take(struct o2g_area *area, struct o2g_cqe *cqe)
{
	struct o2g_cqe *ring = (struct o2g_cqe *)((u8 *)area + area->cqe);
	const u32 head = o2g_load(&area->cq.head);

	if (o2g_load_acquire(&area->cq.tail) == head)
		return 0;
	*cqe = ring[head & (area->cq_entries - 1)];
	o2g_store_release(&area->cq.head, head + 1);
	return 1;
}

int o2g_ring_roomy(struct o2g_area *area)
{
	o2g_full_barrier();
	return (o2g_load(&area->sq.flags) & O2G_NEED_ROOM) != 0;
}

int o2g_ring_sleeps(struct o2g_area *area)
{
	o2g_store(&area->cq.flags, O2G_NEED_WAKE);
	o2g_full_barrier();
	return o2g_load_acquire(&area->cq.tail) == o2g_load(&area->cq.head);
}

void o2g_ring_awake(struct o2g_area *area)
{
	o2g_store(&area->cq.flags, 0);
}
