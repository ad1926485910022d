/* SPDX-License-Identifier: MIT */
/* What names lead to. */
#ifndef ABI_FS_NAMES_H
#define ABI_FS_NAMES_H

#include <skep/types.h>

struct abi_call;

/*
 * What the folder `path` (absolute) is, without any link: of ABI_PATH_MAX bytes
 * in `out`. The length, or an errno as of abi_path_join.
 */
s64 abi_path_folder(struct abi_call *c, const char *path, char *out,
		    u32 *flags);
/*
 * While `path` (absolute, normalised) is a link, puts in its place what the
 * link leads to. 0, or -ELOOP, -ENAMETOOLONG, or an error of lstat(2).
 */
s64 abi_path_last(struct abi_call *c, char *path, u32 *end);

#endif
