/* SPDX-License-Identifier: MIT */
/* Files, directories and block devices of the host. */
#ifndef ABI_FS_REGULAR_H
#define ABI_FS_REGULAR_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_desc_ops;
struct abi_file_op;
struct abi_proc;
struct abi_stat;

extern const struct abi_desc_ops abi_regular_ops;
extern const struct abi_desc_ops abi_directory_ops;
extern const struct abi_desc_ops abi_block_ops;

/* For all kinds with a handle of the host. */
int abi_handle_release(struct abi_proc *p, struct abi_desc *d);

s64 abi_handle_control(struct abi_call *c, struct abi_desc *d,
		       struct abi_file_op *op);
s64 abi_handle_stat(struct abi_call *c, struct abi_desc *d,
		    struct abi_stat *st);
s64 abi_handle_available(struct abi_call *c, struct abi_desc *d);

#endif
