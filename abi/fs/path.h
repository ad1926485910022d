/* SPDX-License-Identifier: MIT */
/*
 * Guest paths: joined with a directory and normalised, path_resolution(7).
 *
 * abi stores the text of a directory. ".." after a name leaves the folder that
 * the name leads to; so if the name is a link, it is first replaced by the
 * link's text. Other links remain in the text, and the host follows them.
 */
#ifndef ABI_PATH_H
#define ABI_PATH_H

#include <skep/types.h>

/* The path ended in a slash, "." or "..": it must name a directory. */
#define ABI_PATH_MUST_DIR 1
/* It ended in "." or "..", whatever slashes followed. */
#define ABI_PATH_DOT 2
#define ABI_PATH_DOTS 4
#define ABI_PATH_ENDS (ABI_PATH_MUST_DIR | ABI_PATH_DOT | ABI_PATH_DOTS)

#define ABI_PATH_LINKS 40 /* as on Linux; one more is ELOOP */

/* How links are read. */
struct abi_path_walk {
	/*
	 * What `path` (absolute, normalised) is: the length of a link's text,
	 * which is written to `text` of ABI_PATH_MAX bytes; 0 for a folder;
	 * -ENOTDIR for anything else, or another error of lstat(2).
	 */
	s64 (*look)(void *arg, const char *path, char *text);
	void *arg;
	u32 all; /* resolve every component: the result contains no link */
};

/*
 * Resolves `path` relative to directory `base` (absolute, normalised) into
 * `out` of ABI_PATH_MAX bytes: absolute, no slash at the end unless it is the
 * root, no empty, "." or ".." component. Returns its length; -ENOENT if `path`
 * is empty, -ENAMETOOLONG for a component above 255 bytes or a path above 4095,
 * -ELOOP, or an error of `look`. Without `how`, ".." only removes the name
 * before it.
 */
s64 abi_path_join(const struct abi_path_walk *how, const char *base,
		  const char *path, char *out, u32 *flags);

/* The part of `path` below directory `dir`, or 0: for "/a/b" in "/a" it is
 * "b". */
const char *abi_path_below(const char *path, const char *dir);

#endif
