/* SPDX-License-Identifier: MIT */
/* Descriptors in messages between processes: SCM_RIGHTS of unix(7). */
#ifndef ABI_NET_RIGHTS_H
#define ABI_NET_RIGHTS_H

#include "abi/include/host.h"

struct abi_call;
struct abi_desc;
struct abi_msghdr;
struct abi_proc;

/* The files of a message, with references until abi_rights_put. */
struct abi_rights_held {
	struct abi_rights rights;
	struct abi_desc *desc[ABI_RIGHTS_MAX];
};

/*
 * Reads the control data of a message to be sent on `d`. 0, also without
 * control data; -EBADF, -EINVAL, or -EINVAL after a message for what cannot be
 * sent. Call abi_rights_put in each case.
 */
s64 abi_rights_take(struct abi_call *c, struct abi_desc *d,
		    const struct abi_msghdr *h, struct abi_rights_held *to);
void abi_rights_put(struct abi_call *c, struct abi_rights_held *held);

/* How many files a message received on `d` may contain. */
u32 abi_rights_room(const struct abi_proc *p, const struct abi_desc *d,
		    const struct abi_msghdr *h);
/*
 * Assigns numbers to the received files and writes them as control data; files
 * for which there is no room are closed. Sets h->controllen, and MSG_CTRUNC in
 * h->flags. flags: MSG_CMSG_CLOEXEC. 0, or -EFAULT.
 */
s64 abi_rights_give(struct abi_call *c, const struct abi_rights *got,
		    struct abi_msghdr *h, u32 flags);

#endif
