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
s64 abi_pair_option(struct abi_proc *p, const struct abi_desc *d,
		    struct abi_sock_op *op);

/* Creates a connected pair of stream sockets; 0 or -ENFILE. */
s64 abi_pair_new(struct abi_proc *p, u32 flags, struct abi_desc *pair[2]);

/* Whether the host makes sockets of AF_UNIX. */
int abi_pair_hosts(const struct abi_proc *p);

/*
 * On a host that spawns processes, pairs are shared with them by being
 * connections of the host, which has no AF_UNIX; abi answers for that family.
 * abi_pair_share makes a pair of abi one of these and does nothing to other
 * descriptions. 0, or an error, and then nothing has changed.
 */
s64 abi_pair_share(struct abi_proc *p, struct abi_desc *d);
int abi_pair_is_shared(const struct abi_proc *p, const struct abi_desc *d);
/* All calls on one of them. */
s64 abi_pair_call(struct abi_proc *p, struct abi_desc *d,
		  struct abi_sock_op *op);

#endif
