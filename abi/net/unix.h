/* SPDX-License-Identifier: MIT */
/* Sockets of AF_UNIX by name. */
#ifndef ABI_NET_UNIX_H
#define ABI_NET_UNIX_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_desc_ops;
struct abi_proc;
struct abi_sock_op;

extern const struct abi_desc_ops abi_unix_ops;

/* A socket without a name and a peer; flags: O_NONBLOCK. 0: ENFILE. */
struct abi_desc *abi_unix_new(struct abi_call *c, u32 flags, u32 type);

/* Of a host without sockets of AF_UNIX: says once that they get no name and no
 * peer. -EAFNOSUPPORT. */
s64 abi_unix_refuse(struct abi_proc *p);

/* unix_host.c: host->sock for an AF_UNIX socket of the host. */
s64 abi_unix_call(struct abi_call *c, struct abi_desc *d,
		  struct abi_sock_op *op);
/*
 * Linux reports no event when the queue of a peer to which a socket is not
 * connected yet has room again. So calls try again after a millisecond. 0: try;
 * -EINTR; -ETIMEDOUT: the deadline has passed.
 */
s64 abi_unix_retry(struct abi_call *c, u64 deadline);

#endif
