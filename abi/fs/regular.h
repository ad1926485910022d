/* SPDX-License-Identifier: MIT */
/* Files, directories and block devices of the host. */
#ifndef ABI_FS_REGULAR_H
#define ABI_FS_REGULAR_H

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;

extern const struct abi_desc_ops abi_regular_ops;
extern const struct abi_desc_ops abi_directory_ops;
extern const struct abi_desc_ops abi_block_ops;

/* Of all that has a handle of the host. */
int abi_handle_release(struct abi_proc *p, struct abi_desc *d);

#endif
