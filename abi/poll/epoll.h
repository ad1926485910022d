/* SPDX-License-Identifier: MIT */
/* Interest lists of epoll; epoll.c explains how edges are reported. */
#ifndef ABI_EPOLL_H
#define ABI_EPOLL_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_desc_ops;
struct abi_proc;
struct abi_watch;

extern const struct abi_desc_ops abi_epoll_ops;

/* Called when its last number was closed: removes `d` from all interest
 * lists. */
void abi_epoll_forget(struct abi_proc *p, struct abi_desc *d);

/* Is `d` an epoll? */
int abi_epoll_is(const struct abi_desc *d);

/* For snapshots: entry i of the interest list of `d`, or NULL. The threads are
 * at rest. */
const struct abi_watch *abi_epoll_entry(const struct abi_proc *p,
					const struct abi_desc *d, u32 i);
/* Adds an entry like `from` to the list of `d`, an epoll: 0 or -errno. */
s64 abi_epoll_restore(struct abi_proc *p, struct abi_desc *d,
		      const struct abi_watch *from);

#endif
