/* SPDX-License-Identifier: MIT */
/*
 * Both sides of the rings of <skep/o2g_ring.h>. The engine's side keeps its
 * own indices and trusts nothing it reads; the program's is here too, for the
 * library and for tests, so that the barriers are in one place.
 */
#ifndef O2G_CORE_RING_H
#define O2G_CORE_RING_H

#include "core.h"

struct o2g_ring { /* the engine's side */
	struct o2g_area *area;
	struct o2g_sqe *sqe;
	struct o2g_cqe *cqe;
	u32 sq_entries, cq_entries;
	u32 sq_head; /* next to consume */
	u32 cq_tail; /* next to fill */
	u32 cq_head; /* the program's, as last read */
	u32 flags;   /* what sq.flags holds */
	u64 outbox, outbox_size, slab, slab_size;
};

/* Reads and checks the header, once. */
int o2g_ring_open(struct o2g_ring *ring, struct o2g_area *area);
/* How many submissions wait; -EPROTO: more than fit. */
int o2g_ring_waiting(const struct o2g_ring *ring);
/* A private copy of the next one, which stays until o2g_ring_next(). */
void o2g_ring_look(const struct o2g_ring *ring, struct o2g_sqe *sqe);
void o2g_ring_next(struct o2g_ring *ring);
/* Is there room for a completion? */
int o2g_ring_room(struct o2g_ring *ring);
/* Writes a completion: 1, or 0 when there is no room. */
int o2g_ring_put(struct o2g_ring *ring, const struct o2g_cqe *cqe);
/* Sets what the program has to kick for (O2G_NEED_*). True when a flag was
 * newly set: the barrier is done, check the ring once more. */
int o2g_ring_ask(struct o2g_ring *ring, u32 flags);
/* After completions: does the program want to be woken? */
int o2g_ring_wakes(struct o2g_ring *ring);

/* The program's side; one producer and one consumer at a time. 1 or 0: no
 * room. */
int o2g_ring_submit(struct o2g_area *area, const struct o2g_sqe *sqe);
/* After a batch of submissions. True: kick. (Kick in any case if one of them
 * must be done now.) */
int o2g_ring_kicks(struct o2g_area *area);
/* After a batch of RELEASE alone, the same. */
int o2g_ring_releases(struct o2g_area *area);
/* The next completion: 1, or 0 when there is none. */
int o2g_ring_take(struct o2g_area *area, struct o2g_cqe *cqe);
/* After taking a batch. True: kick, completions wait for the room. */
int o2g_ring_roomy(struct o2g_area *area);

/* Before sleeping. True: nothing has come, sleep until woken. */
int o2g_ring_sleeps(struct o2g_area *area);
/* After sleeping, or instead of it. */
void o2g_ring_awake(struct o2g_area *area);

#endif
