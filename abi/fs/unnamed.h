/* SPDX-License-Identifier: MIT */
/* Files without a name: memfd_create(2), and O_TMPFILE of open(2). */
#ifndef ABI_FS_UNNAMED_H
#define ABI_FS_UNNAMED_H

#include <skep/types.h>

struct abi_call;
struct abi_open;
struct abi_proc;

/*
 * Creates a file in `folder`, which ends with a slash, and removes its name;
 * open->path is that name and may not be used. 0, or an error of open(2).
 */
s64 abi_unnamed_open(struct abi_proc *p, const char *folder,
		     struct abi_open *open);
/* open(2) with O_TMPFILE of the folder `path`. */
s64 abi_unnamed_tmpfile(struct abi_call *c, const char *path, u32 flags,
			u32 mode);

#endif
