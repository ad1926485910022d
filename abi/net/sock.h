/* SPDX-License-Identifier: MIT */
/* What sock.c and sock_msg.c share. */
#ifndef ABI_SOCK_H
#define ABI_SOCK_H

#include "abi/include/host.h"
#include "abi/mm/span.h"

struct abi_call;
struct abi_desc;
struct abi_proc;

struct abi_desc_ops;

/* The socket with this number; 0 with *error EBADF or ENOTSOCK. */
struct abi_desc *abi_sock_get(struct abi_call *c, u64 fd, s64 *error);
/* Repeats the host operation after each wait; EAGAIN only if it must not
 * wait. */
s64 abi_sock_wait(struct abi_call *c, struct abi_desc *d,
		  struct abi_sock_op *op, u32 events, u32 dontwait);
s64 abi_sock_addr_get(struct abi_call *c, struct abi_sock_op *op, u64 gaddr,
		      u64 len);
s64 abi_sock_addr_put(struct abi_call *c, const struct abi_sock_op *op,
		      u64 gaddr, u64 lenp);

/* One call that moves data. */
struct abi_sock_transfer {
	struct abi_desc *d;
	struct abi_span span;
	struct abi_sock_op op;
	u32 flags; /* MSG_*, as the guest gave them */
};

extern const struct abi_desc_ops abi_sock_ops; /* sock_msg.c */

#endif
