/* SPDX-License-Identifier: MIT */
/* timerfd_create(2). */
#ifndef ABI_TIME_TIMERFD_H
#define ABI_TIME_TIMERFD_H

#include <skep/types.h>

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;

extern const struct abi_desc_ops abi_timerfd_ops;

u32 abi_timerfd_ready(struct abi_proc *p, struct abi_desc *d, u64 *due);

#endif
