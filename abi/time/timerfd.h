/* SPDX-License-Identifier: MIT */
/* timerfd_create(2). */
#ifndef ABI_TIME_TIMERFD_H
#define ABI_TIME_TIMERFD_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;

u32 abi_timerfd_ready(struct abi_proc *p, struct abi_desc *d, u64 *due);
s64 abi_timerfd_read(struct abi_call *c, struct abi_desc *d, void *buf);

#endif
