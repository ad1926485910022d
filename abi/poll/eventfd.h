/* SPDX-License-Identifier: MIT */
/* eventfd(2). */
#ifndef ABI_POLL_EVENTFD_H
#define ABI_POLL_EVENTFD_H

struct abi_desc_ops;

extern const struct abi_desc_ops abi_eventfd_ops;

#endif
