/* SPDX-License-Identifier: MIT */
/*
 * Linux file names as Windows file names, and back. Pure: no call leaves here.
 *
 * Windows refuses some characters (" * : < > ? | \ and 1 to 31), ends of names
 * (a dot, a space) and whole names (CON, nul.txt, COM1, ...). Each refused
 * byte b becomes the one character U+F000 + b, in the private use area, as do
 * bytes that are not valid UTF-8. Linux names that hold characters from
 * U+F000 to U+F0FF themselves are written byte by byte in the same way, so the
 * map is one to one: every Linux name has exactly one Windows name, and a
 * Windows name that no Linux name maps to gives -EILSEQ (list it and it could
 * not be opened again).
 *
 * Not solved here, since Windows compares names without case: `a` and `A` in
 * one directory are one file there. A component of up to 255 bytes never
 * gives more than 255 UTF-16 units, the limit of NTFS.
 */
#ifndef ABI_NAME_H
#define ABI_NAME_H

#include <skep/types.h>

#define ABI_NAME_MAX 255 /* bytes of a Linux component */

/*
 * Encodes one component without slashes. `out` has room for `size` units (no
 * NUL is written). Returns the number of units, -ENAMETOOLONG if they do not
 * fit, or -EINVAL for an empty name, "." or "..", a slash or a NUL.
 */
s64 abi_name_encode(const char *name, u64 len, u16 *out, u64 size);

/* The inverse, for directory listings; -EILSEQ as above. */
s64 abi_name_decode(const u16 *name, u64 len, char *out, u64 size);

/*
 * Encodes a path. `root` is an absolute Windows path ("Z:\", "C:\box",
 * "\\server\share\box", or one with the \\?\ prefix), `path` an absolute,
 * normalised Linux path. The result, with NUL, begins with \\?\ so that no
 * length limit and no further parsing applies. Returns the units without the
 * NUL.
 */
s64 abi_name_path(const u16 *root, u64 root_len, const char *path, u16 *out,
		  u64 size);

/*
 * The absolute Linux path of a Windows path (with or without \\?\) at or below
 * `root`, with NUL; -EXDEV if it is elsewhere. Returns the bytes without the
 * NUL.
 */
s64 abi_name_path_back(const u16 *root, u64 root_len, const u16 *path, u64 len,
		       char *out, u64 size);

/*
 * UTF-8 and UTF-16 for text that is not a file name. Strict: -EILSEQ for
 * overlong forms, lone surrogates and values above U+10FFFF.
 */
s64 abi_utf8_to_utf16(const char *from, u64 len, u16 *out, u64 size);
s64 abi_utf16_to_utf8(const u16 *from, u64 len, char *out, u64 size);

#endif
