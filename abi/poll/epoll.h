/* SPDX-License-Identifier: MIT */
/* Interest lists of epoll; epoll.c explains how edges are reported. */
#ifndef ABI_EPOLL_H
#define ABI_EPOLL_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

struct abi_desc_ops;

extern const struct abi_desc_ops abi_epoll_ops;

/* Called when its last number was closed: removes `d` from all interest
 * lists. */
void abi_epoll_forget(struct abi_proc *p, struct abi_desc *d);

/* Is `d` an epoll? */
int abi_epoll_is(const struct abi_desc *d);

#endif
