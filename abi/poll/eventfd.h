/* SPDX-License-Identifier: MIT */
/* eventfd(2). */
#ifndef ABI_POLL_EVENTFD_H
#define ABI_POLL_EVENTFD_H

#include <skep/types.h>

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;

extern const struct abi_desc_ops abi_eventfd_ops;

u32 abi_eventfd_ready(struct abi_proc *p, struct abi_desc *d);

#endif
