/* SPDX-License-Identifier: MIT */
/* timerfd_create(2). */
#ifndef ABI_TIME_TIMERFD_H
#define ABI_TIME_TIMERFD_H

struct abi_desc_ops;

extern const struct abi_desc_ops abi_timerfd_ops;

#endif
