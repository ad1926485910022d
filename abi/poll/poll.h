/* SPDX-License-Identifier: MIT */
/*
 * The one engine behind poll, select and epoll: readiness of descriptions,
 * and sets of them to sleep on. The list of poll(2) bits is Linux's.
 */
#ifndef ABI_POLL_H
#define ABI_POLL_H

#include "abi/state/watch.h"

struct abi_call;
struct abi_desc;
struct abi_proc;

/* Bits that are true now, for what abi knows; epoll excluded. */
u32 abi_desc_ready(struct abi_proc *p, struct abi_desc *d);
/* Its changes wake (on), or no longer wake, the calling thread. */
void abi_desc_join(struct abi_call *c, struct abi_desc *d, u32 on);
/* Whether to repeat a poll without a result. `rounds` counts those after the
 * deadline.
 */
int abi_set_again(struct abi_call *c, u64 deadline, u32 *rounds);
/* The edge counters that epoll compares. */
void abi_desc_edges(struct abi_proc *p, struct abi_desc *d, u32 *in, u32 *out);

/*
 * Adds what `events` of `d` depend on, under `tag`; the bits that are true
 * already. The caller holds epoll_lock when d is an epoll. set may be NULL:
 * only look.
 */
u32 abi_set_add(struct abi_call *c, struct abi_set *set, struct abi_desc *d,
		u32 events, u32 tag, u32 depth);
/* Leaves and puts all: the set is empty. Hold no lock. */
void abi_set_reset(struct abi_call *c, struct abi_set *set);
/*
 * Sleeps until something may have changed; at once when `ready`. Fills the
 * items' revents. 0, -ETIMEDOUT only for `deadline`, -EINTR, -ENOMEM.
 */
s64 abi_set_sleep(struct abi_call *c, struct abi_set *set, u32 ready,
		  u64 deadline);

/* Arrays for large sets; 0 when all are in use. */
struct abi_set_space *abi_set_space_take(struct abi_proc *p);
void abi_set_space_drop(struct abi_proc *p, struct abi_set_space *space);
void abi_set_init_large(struct abi_set *set, struct abi_set_space *space);

#endif
