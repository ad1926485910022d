// SPDX-License-Identifier: MIT
/* Owns the rules for the text of paths, path_resolution(7). No state. */
#include "path.h"
#include "base/errno.h"
#include "abi/include/host.h"
#include "abi/include/mem.h"
#include "abi/include/name.h"

static u64 parent_of(const char *path, u64 len)
{
	while (len && path[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

static s64 component_append(char *out, u64 len, const char *part, u64 n)
{
	if (n > ABI_NAME_MAX || len + 1 + n >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	out[len++] = '/';
	abi_memcpy(out + len, part, n);
	return (s64)(len + n);
}

/* Adds the components of `path` to the `len` bytes in `out`. */
static s64 components_append(char *out, u64 len, const char *path, u32 *flags)
{
	s64 grown;
	u64 n;

	for (;;) {
		if (*path == '/')
			*flags |= ABI_PATH_MUST_DIR;
		while (*path == '/')
			path++;
		if (!*path)
			return (s64)len;
		*flags |= ABI_PATH_MUST_DIR;
		for (n = 0; path[n] && path[n] != '/'; n++)
			;
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			len = parent_of(out, len);
		} else if (n != 1 || path[0] != '.') {
			*flags &= ~(u32)ABI_PATH_MUST_DIR;
			grown = component_append(out, len, path, n);
			if (grown < 0)
				return grown;
			len = (u64)grown;
		}
		path += n;
	}
}

s64 abi_path_join(const char *base, const char *path, char *out, u32 *flags)
{
	u32 ignored = 0;
	s64 len = 0;

	*flags = 0;
	if (!*path)
		return -LINUX_ENOENT;
	if (abi_strlen(path) >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	if (*path != '/')
		len = components_append(out, 0, base, &ignored);
	if (len >= 0)
		len = components_append(out, (u64)len, path, flags);
	if (len < 0)
		return len;
	if (!len)
		out[len++] = '/';
	out[len] = 0;
	return len;
}

const char *abi_path_below(const char *path, const char *dir)
{
	while (*dir && *path == *dir) {
		path++;
		dir++;
	}
	return !*dir && *path == '/' ? path + 1 : 0;
}
