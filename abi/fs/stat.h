/* SPDX-License-Identifier: MIT */
/* stat(2). */
#ifndef ABI_FS_STAT_H
#define ABI_FS_STAT_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;
struct abi_stat;

/* stat(2) of a description. */
s64 abi_file_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st);

/* An inode without a name: of a pipe, an eventfd, a socket. */
void abi_stat_unnamed(struct abi_proc *p, struct abi_desc *d,
		      struct abi_stat *st);

#endif
