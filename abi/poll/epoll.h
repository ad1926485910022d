/* SPDX-License-Identifier: MIT */
/* Interest lists of epoll; epoll.c says how edges are told. */
#ifndef ABI_EPOLL_H
#define ABI_EPOLL_H

#include "abi/fs/fd.h"

struct abi_desc_ops;

extern const struct abi_desc_ops abi_epoll_ops;

/* Its last number is gone: no interest list names `d` any more. */
void abi_epoll_forget(struct abi_proc *p, struct abi_desc *d);

/* For the poll engine, which holds epoll_lock: see abi_set_add. */
u32 abi_epoll_add_all(struct abi_call *c, struct abi_set *set,
		      struct abi_desc *d, u32 tag, u32 nested, u32 depth);

#endif
