/* SPDX-License-Identifier: MIT */
/* eventfd(2). */
#ifndef ABI_POLL_EVENTFD_H
#define ABI_POLL_EVENTFD_H

#include <skep/types.h>

#define ABI_EVENTFD_MAX 0xfffffffffffffffeull /* of a counter */

struct abi_call;
struct abi_desc;
struct abi_desc_ops;
struct abi_proc;
struct abi_span;

/* read(2) of a counter, also of a timerfd: eight bytes at once; `take`
 * waits. */
s64 abi_counter_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 (*take)(struct abi_call *c, struct abi_desc *d,
				 u64 *value));

extern const struct abi_desc_ops abi_eventfd_ops, abi_counter_ops;

/*
 * Processes share counters of the host (host->counter). This makes an eventfd
 * of abi one of these, with its value, and does nothing to other descriptions.
 * 0, or an error, and then nothing has changed.
 */
s64 abi_eventfd_share(struct abi_proc *p, struct abi_desc *d);

#endif
