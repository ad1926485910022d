/* SPDX-License-Identifier: MIT */
/* eventfd(2). */
#ifndef ABI_POLL_EVENTFD_H
#define ABI_POLL_EVENTFD_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

u32 abi_eventfd_ready(struct abi_proc *p, struct abi_desc *d);
s64 abi_eventfd_read(struct abi_call *c, struct abi_desc *d, void *buf);
s64 abi_eventfd_write(struct abi_call *c, struct abi_desc *d, const void *buf);

#endif
