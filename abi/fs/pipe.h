/* SPDX-License-Identifier: MIT */
/* pipe(2). */
#ifndef ABI_PIPE_H
#define ABI_PIPE_H

struct abi_desc_ops;

extern const struct abi_desc_ops abi_pipe_ops;

#endif
