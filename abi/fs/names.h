/* SPDX-License-Identifier: MIT */
/* Operations on names, of which none reaches the host's own /proc. */
#ifndef ABI_FS_NAMES_H
#define ABI_FS_NAMES_H

#include <skep/types.h>

struct abi_call;
struct abi_path_op;

/*
 * Runs `op` on an absolute, normalised path: by the host, or on what the guest
 * has at a name of proc(5) or of a descriptor (/proc/self/fd/N). The result is
 * host->path's; ELOOP only where links go round.
 */
s64 abi_name_run(struct abi_call *c, struct abi_path_op op);

/*
 * What `path` (absolute, normalised) leads to, without any link but, unless
 * `follow`, one at the end: of ABI_PATH_MAX bytes in `out`. The end need not
 * exist; a descriptor's name remains as it is. The length, or an errno as of
 * abi_path_join.
 */
s64 abi_path_whole(struct abi_call *c, const char *path, int follow, char *out);
/* The same for a folder, which must exist. */
s64 abi_path_folder(struct abi_call *c, const char *path, char *out,
		    u32 *flags);
/*
 * While `path` (absolute, normalised) is a link, puts in its place what the
 * link leads to. 0, or -ELOOP, -ENAMETOOLONG, or an error of lstat(2).
 */
s64 abi_path_last(struct abi_call *c, char *path, u32 *end);

#endif
