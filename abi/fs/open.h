/* SPDX-License-Identifier: MIT */
/* Names as handlers see them, and opening. */
#ifndef ABI_FS_OPEN_H
#define ABI_FS_OPEN_H

#include <skep/types.h>

struct abi_call;

/* name lookup: dirfd and a guest string to an absolute path in `out`. */
s64 abi_path_at(struct abi_call *c, u64 dirfd, u64 gaddr, char *out,
		u32 *flags);
/* open for the kernel's own use as well: 0 or more is a number. */
s64 abi_file_open(struct abi_call *c, const char *path, u32 flags, u32 mode);

#endif
