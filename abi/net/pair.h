/* SPDX-License-Identifier: MIT */
/* socketpair(2). */
#ifndef ABI_NET_PAIR_H
#define ABI_NET_PAIR_H

#include <skep/types.h>

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;
struct abi_sock_op;

extern const struct abi_desc_ops abi_pair_ops;

/* getsockopt(2) and setsockopt(2) of sockets that are not the host's. */
s64 abi_pair_option(struct abi_sock_op *op);

/* Creates a connected pair of stream sockets; 0 or -ENFILE. */
s64 abi_pair_new(struct abi_proc *p, u32 flags, struct abi_desc *pair[2]);

/* Whether the host makes sockets of AF_UNIX. */
int abi_pair_hosts(const struct abi_proc *p);

#endif
