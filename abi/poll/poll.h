/* SPDX-License-Identifier: MIT */
/*
 * The common implementation of poll, select and epoll: readiness of
 * descriptions, and sets of them to sleep on. The poll(2) bits are Linux's.
 */
#ifndef ABI_POLL_H
#define ABI_POLL_H

#include "abi/state/watch.h"

struct abi_call;
struct abi_desc;
struct abi_proc;

/* Bits that are set now, as far as abi knows; not for epoll. */
u32 abi_desc_ready(struct abi_proc *p, struct abi_desc *d);
/* Adds (on) or removes the calling thread as one that changes of `d` wake. */
void abi_desc_join(struct abi_call *c, struct abi_desc *d, u32 on);
/* Whether to repeat a poll without a result. `rounds` counts the repetitions
 * after the deadline. */
int abi_set_again(struct abi_call *c, u64 deadline, u32 *rounds);
/* The edge counters that epoll compares. */
void abi_desc_edges(struct abi_proc *p, struct abi_desc *d, u32 *in, u32 *out);

/*
 * Adds what `events` of `d` depend on to the set, under `tag`; returns the bits
 * that are set already. The caller holds epoll_lock if d is an epoll. set may
 * be NULL: only returns the bits.
 */
u32 abi_set_add(struct abi_call *c, struct abi_set *set, struct abi_desc *d,
		u32 events, u32 tag, u32 depth);
/* Empties the set: leaves all events and drops all references. Call it without
 * a lock. */
void abi_set_reset(struct abi_call *c, struct abi_set *set);
/*
 * Sleeps until something may have changed; not if `ready`. Sets the items'
 * revents. 0, -ETIMEDOUT only for `deadline`, -EINTR, -ENOMEM.
 */
s64 abi_set_sleep(struct abi_call *c, struct abi_set *set, u32 ready,
		  u64 deadline);

/* Arrays for large sets; 0 if all are in use. */
struct abi_set_space *abi_set_space_take(struct abi_proc *p);
void abi_set_space_drop(struct abi_proc *p, struct abi_set_space *space);
void abi_set_init_large(struct abi_set *set, struct abi_set_space *space);

#endif
