/* SPDX-License-Identifier: MIT */
/* pipe(2). */
#ifndef ABI_PIPE_H
#define ABI_PIPE_H

#include <skep/types.h>

struct abi_desc_ops;

extern const struct abi_desc_ops abi_pipe_ops;

struct abi_desc;
struct abi_proc;

/* Makes a pipe of abi one of the host, so that other processes can have it.
 * Does nothing to other descriptions. 0, or an error. */
s64 abi_pipe_share(struct abi_proc *p, struct abi_desc *d);

#endif
