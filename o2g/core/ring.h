/* SPDX-License-Identifier: MIT */
/*
 * Both sides of the rings of <skep/o2g_ring.h>. The engine's side keeps its own
 * indices and trusts nothing that it reads. The program's side, for the library
 * and for tests, is here too, so that all barriers are in one place.
 */
#ifndef O2G_CORE_RING_H
#define O2G_CORE_RING_H

#include "core.h"

struct o2g_ring { /* the engine's side */
	struct o2g_area *area;
	struct o2g_sqe *sqe;
	struct o2g_cqe *cqe;
	u32 sq_entries, cq_entries;
	u32 sq_head; /* next entry to consume */
	u32 cq_tail; /* next entry to fill */
	u32 cq_head; /* the program's index, as last read */
	u32 flags;   /* what was last written to sq.flags */
	u64 outbox, outbox_size, slab, slab_size;
};

/* Reads and checks the header, once. */
int o2g_ring_open(struct o2g_ring *ring, struct o2g_area *area);
/* How many submissions are in the ring; -EPROTO: more than fit. */
int o2g_ring_waiting(const struct o2g_ring *ring);
/* Copies the next submission, which stays in the ring until o2g_ring_next(). */
void o2g_ring_look(const struct o2g_ring *ring, struct o2g_sqe *sqe);
void o2g_ring_next(struct o2g_ring *ring);
/* Is there room for a completion? */
int o2g_ring_room(struct o2g_ring *ring);
/* Writes a completion: 1, or 0 when there is no room. */
int o2g_ring_put(struct o2g_ring *ring, const struct o2g_cqe *cqe);
/* Sets what the program must kick for (O2G_NEED_*). True if a flag was newly
 * set; then check the ring once more. The barrier for that has been
 * executed. */
int o2g_ring_ask(struct o2g_ring *ring, u32 flags);
/* Call after writing completions: whether the program wants to be woken. */
int o2g_ring_wakes(struct o2g_ring *ring);

/* The program's side, for one producer and one consumer at a time. Returns 1,
 * or 0 if there is no space. */
int o2g_ring_submit(struct o2g_area *area, const struct o2g_sqe *sqe);
/* Call after a batch of submissions. True: kick. (If a submission must be
 * handled now, kick in any case.) */
int o2g_ring_kicks(struct o2g_area *area);
/* The same after a batch that contains only RELEASE. */
int o2g_ring_releases(struct o2g_area *area);
/* Takes the next completion: 1, or 0 if there is none. */
int o2g_ring_take(struct o2g_area *area, struct o2g_cqe *cqe);
/* Call after taking a batch. True: kick, because completions wait for space. */
int o2g_ring_roomy(struct o2g_area *area);

/* Call before sleeping. True: the ring is empty; sleep until woken. */
int o2g_ring_sleeps(struct o2g_area *area);
/* Call after sleeping, or instead of sleeping. */
void o2g_ring_awake(struct o2g_area *area);

#endif
