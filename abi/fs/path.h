/* SPDX-License-Identifier: MIT */
/*
 * Guest paths as text: joined with a directory and normalised. Pure.
 *
 * ".." is removed together with the component before it, even if that is a
 * symbolic link, because abi keeps only the text of a directory. So ".." from a
 * linked directory leads to the parent of the link. This is the only difference
 * to Linux.
 */
#ifndef ABI_PATH_H
#define ABI_PATH_H

#include <skep/types.h>

/* The path ended in a slash, "." or "..": it must name a directory. */
#define ABI_PATH_MUST_DIR 1

/*
 * `path` as seen from directory `base` (absolute, normalised), written to
 * `out` of ABI_PATH_MAX bytes: absolute, no slash at the end unless it is the
 * root, no empty, "." or ".." component. Its length; -ENOENT when `path` is
 * empty, -ENAMETOOLONG for a component above 255 bytes or a whole above 4095.
 */
s64 abi_path_join(const char *base, const char *path, char *out, u32 *flags);

/* What `path` says after directory `dir`, or 0: "/a/b" in "/a" is "b". */
const char *abi_path_below(const char *path, const char *dir);

#endif
