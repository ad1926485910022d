/* SPDX-License-Identifier: MIT */
/* Sockets of AF_UNIX by name. */
#ifndef ABI_NET_UNIX_H
#define ABI_NET_UNIX_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_desc_ops;

extern const struct abi_desc_ops abi_unix_ops;

/* A socket without a name and a peer; flags: O_NONBLOCK. 0: no room. */
struct abi_desc *abi_unix_new(struct abi_call *c, u32 flags, u32 type);

#endif
