/* SPDX-License-Identifier: MIT */
/* Names as handlers see them, and opening. */
#ifndef ABI_FS_OPEN_H
#define ABI_FS_OPEN_H

#include <skep/types.h>

struct abi_call;
struct abi_path_op;

/* Name lookup: converts dirfd and a guest string to an absolute path in
 * `out`. */
s64 abi_path_at(struct abi_call *c, u64 dirfd, u64 gaddr, char *out,
		u32 *flags);
/* The same for a name in abi's memory. */
s64 abi_path_name(struct abi_call *c, u64 dirfd, const char *name, char *out,
		  u32 *flags);
/* Runs one operation on a name; sets op->path. */
s64 abi_path_run(struct abi_call *c, u64 dirfd, u64 gaddr,
		 struct abi_path_op *op);
/* open(2), also for the kernel's own use: returns a number. */
s64 abi_file_open(struct abi_call *c, const char *path, u32 flags, u32 mode);

#endif
