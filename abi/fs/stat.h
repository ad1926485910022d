/* SPDX-License-Identifier: MIT */
/* stat(2). */
#ifndef ABI_FS_STAT_H
#define ABI_FS_STAT_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_path_op;
struct abi_proc;
struct abi_stat;

/* stat(2) of a description. */
s64 abi_file_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st);

/* Whether the file of a description is known by a name, also to the host. */
int abi_file_is_named(const struct abi_desc *d);

#define ABI_FILE_BY_NAME 1
/*
 * An operation that follows links, on an open file. ABI_FILE_BY_NAME: nothing
 * was done, and it must be done on d->path.
 */
s64 abi_file_run(struct abi_call *c, struct abi_desc *d,
		 const struct abi_path_op *op);

/* An inode without a name: of a pipe, an eventfd, a socket. */
void abi_stat_unnamed(struct abi_proc *p, struct abi_desc *d,
		      struct abi_stat *st);

#endif
