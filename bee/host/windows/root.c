// SPDX-License-Identifier: MIT
/*
 * Guest paths as Windows paths: the directory the guest sees as "/", and the
 * two ways through abi's name map. Owns `root`, written before threads exist.
 */
#include "win.h"
#include "abi/include/name.h"

static WCHAR root[WIN_PATH_MAX];
static u64 root_len;

/*
 * On Wine, Z: is "/" of the host; on Windows the root is that of the current
 * drive.
 */
static int root_default(void)
{
	WCHAR cwd[WIN_PATH_MAX];

	if (bee_wine_version()) {
		wcscpy(root, L"Z:\\");
	} else {
		if (!GetCurrentDirectoryW(WIN_PATH_MAX, cwd) || cwd[1] != ':')
			return -1;
		root[0] = cwd[0];
		wcscpy(root + 1, L":\\");
	}
	root_len = 3;
	return 0;
}

int bee_root_set(const char *dir)
{
	WCHAR wide[WIN_PATH_MAX];
	DWORD attributes;
	s64 n;

	if (!dir)
		return root_default();
	n = abi_utf8_to_utf16(dir, strlen(dir), (u16 *)wide, WIN_PATH_MAX - 1);
	if (n < 0)
		return -1;
	wide[n] = 0;
	root_len = GetFullPathNameW(wide, WIN_PATH_MAX, root, NULL);
	attributes = GetFileAttributesW(root);
	if (!root_len || root_len >= WIN_PATH_MAX ||
	    attributes == INVALID_FILE_ATTRIBUTES ||
	    !(attributes & FILE_ATTRIBUTE_DIRECTORY))
		return -1;
	return bee_place_confine(root);
}

s64 bee_path_encode(const char *path, WCHAR *out)
{
	return abi_name_path((u16 *)root, root_len, path, (u16 *)out,
			     WIN_PATH_MAX);
}

s64 bee_path_decode(const WCHAR *path, char *out, u64 len)
{
	return abi_name_path_back((u16 *)root, root_len, (const u16 *)path,
				  wcslen(path), out, len);
}

/*
 * Windows also reports "path not found" if a component is a file; Linux reports
 * ENOTDIR. `path` is a copy that may be cut.
 */
s64 bee_path_missing(WCHAR *path)
{
	u64 n = wcslen(path);
	DWORD a;

	for (;;) {
		while (n && path[n - 1] != '\\')
			n--;
		if (n < 8) /* \\?\C:\ */
			return -LINUX_ENOENT;
		path[--n] = 0;
		a = GetFileAttributesW(path);
		/* A Unix device under Wine exists, but has no attributes. */
		if (a == INVALID_FILE_ATTRIBUTES &&
		    GetLastError() == ERROR_INVALID_PARAMETER)
			return -LINUX_ENOTDIR;
		if (a != INVALID_FILE_ATTRIBUTES)
			return a & FILE_ATTRIBUTE_DIRECTORY ? -LINUX_ENOENT
							    : -LINUX_ENOTDIR;
	}
}
