// SPDX-License-Identifier: MIT
/*
 * Checks where open files are. With --root, bee checks each file after opening
 * it and before any other operation, and refuses it if a link led out of the
 * root. Wine follows links even if bee asks for the link itself, and does not
 * report that, so bee checks the path of the open file. Owns the path of the
 * root, which is written before threads exist.
 */
#include "win.h"
#include "abi/include/name.h"
#include <stdio.h>

#define SHARE (FILE_SHARE_READ | FILE_SHARE_WRITE)

static WCHAR place_root[WIN_PATH_MAX];
static u64 place_root_len; /* 0: any path is accepted */

/* Returns the length of the path, or 0 with the last error. */
static u64 place_of(HANDLE h, WCHAR *out)
{
	DWORD n = GetFinalPathNameByHandleW(h, out, WIN_PATH_MAX, 0);

	if (n < WIN_PATH_MAX)
		return n;
	SetLastError(ERROR_FILENAME_EXCED_RANGE);
	return 0;
}

int bee_place_confine(const WCHAR *root)
{
	HANDLE h = CreateFileW(root, FILE_READ_ATTRIBUTES,
			       SHARE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
			       FILE_FLAG_BACKUP_SEMANTICS, NULL);

	if (h == INVALID_HANDLE_VALUE)
		return -1;
	place_root_len = place_of(h, place_root);
	CloseHandle(h);
	while (place_root_len && place_root[place_root_len - 1] == '\\')
		place_root_len--;
	return place_root_len ? 0 : -1;
}

static int is_inside(const WCHAR *place, u64 len)
{
	return len >= place_root_len &&
	       !wcsncmp(place, place_root, place_root_len) &&
	       (len == place_root_len || place[place_root_len] == '\\');
}

/* Refuses `what`, and prints a message the first time. */
static void say_refused(u32 *said, const WCHAR *path, const char *what)
{
	char line[400];

	if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		return;
	snprintf(line, sizeof(line), "%.200ls %s", path, what);
	bee_log(line);
}

int bee_place_check(HANDLE h, const WCHAR *path)
{
	static u32 said;
	WCHAR place[WIN_PATH_MAX];
	u64 n;

	if (!place_root_len)
		return 0;
	n = place_of(h, place);
	if (n && is_inside(place, n))
		return 0;
	say_refused(&said, path,
		    "is refused (EXDEV): a link leads out of --root; make it "
		    "lead to a name below the root");
	SetLastError(ERROR_NOT_SAME_DEVICE);
	return -1;
}

static HANDLE open_checked(const WCHAR *path, DWORD access, DWORD create,
			   DWORD flags)
{
	HANDLE h = bee_win_open(path, access, create, flags);

	if (h == INVALID_HANDLE_VALUE || !bee_place_check(h, path))
		return h;
	CloseHandle(h);
	SetLastError(ERROR_NOT_SAME_DEVICE);
	return INVALID_HANDLE_VALUE;
}

/* OPEN_ALWAYS through a link could create a file outside the root. */
static HANDLE open_always(const WCHAR *path, DWORD access, DWORD flags)
{
	HANDLE h;
	DWORD e;
	u32 i;

	for (i = 0; i < 2; i++) {
		h = open_checked(path, access, OPEN_EXISTING, flags);
		if (h != INVALID_HANDLE_VALUE ||
		    GetLastError() != ERROR_FILE_NOT_FOUND)
			return h;
		h = open_checked(path, access, CREATE_NEW, flags);
		e = GetLastError();
		if (h != INVALID_HANDLE_VALUE ||
		    (e != ERROR_FILE_EXISTS && e != ERROR_ALREADY_EXISTS))
			return h;
	}
	SetLastError(ERROR_FILE_NOT_FOUND);
	return h;
}

/* Returns the directory of a name. `path` is cut there. */
static HANDLE folder_open(WCHAR *path, DWORD share)
{
	WCHAR *leaf = wcsrchr(path, '\\');
	HANDLE h;

	if (!leaf || leaf - path < 6) { /* \\?\C: */
		SetLastError(ERROR_ACCESS_DENIED);
		return INVALID_HANDLE_VALUE;
	}
	leaf[leaf - path == 6] = 0;
	h = CreateFileW(path, FILE_READ_ATTRIBUTES | FILE_TRAVERSE, share, NULL,
			OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
	if (h == INVALID_HANDLE_VALUE || !bee_place_check(h, path))
		return h;
	CloseHandle(h);
	SetLastError(ERROR_NOT_SAME_DEVICE);
	return INVALID_HANDLE_VALUE;
}

HANDLE bee_place_hold(const WCHAR *path)
{
	WCHAR copy[WIN_PATH_MAX];

	if (!place_root_len)
		return NULL;
	wcscpy(copy, path);
	return folder_open(copy, SHARE);
}

HANDLE bee_place_open(const WCHAR *path, DWORD access, DWORD create,
		      DWORD flags)
{
	HANDLE folder, h;
	DWORD e;

	if (create == OPEN_EXISTING || !place_root_len)
		return open_checked(path, access, create, flags);
	folder = bee_place_hold(path);
	if (folder == INVALID_HANDLE_VALUE)
		return folder;
	h = create == OPEN_ALWAYS ? open_always(path, access, flags)
				  : open_checked(path, access, create, flags);
	e = GetLastError();
	CloseHandle(folder);
	SetLastError(e);
	return h;
}

int bee_place_followed(HANDLE h, const WCHAR *path)
{
	WCHAR place[WIN_PATH_MAX], folder[WIN_PATH_MAX];
	const WCHAR *leaf = wcsrchr(path, '\\');
	HANDLE above;
	u64 n;

	if (!bee_wine_version() || !leaf || !place_of(h, place) ||
	    !_wcsicmp(place, path))
		return 0;
	wcscpy(folder, path);
	above = folder_open(folder, SHARE | FILE_SHARE_DELETE);
	if (above == INVALID_HANDLE_VALUE)
		return 1; /* if it is not known, treat it as a link */
	n = place_of(above, folder);
	CloseHandle(above);
	if (!n || n + wcslen(leaf) >= WIN_PATH_MAX)
		return 0;
	wcscpy(folder + (folder[n - 1] == '\\' ? n - 1 : n), leaf);
	return _wcsicmp(place, folder) != 0;
}

int bee_place_itself(HANDLE h, const WCHAR *path)
{
	static u32 said;

	if (!bee_place_followed(h, path))
		return 0;
	say_refused(&said, path,
		    "is refused (EPERM): it is a link, and Wine would change "
		    "what it leads to");
	return -1;
}

s64 bee_place_text(HANDLE h, const WCHAR *path, char *out, u64 len)
{
	WCHAR place[WIN_PATH_MAX];
	u64 n = place_of(h, place);

	if (!n)
		return bee_win_last();
	if (!place_root_len)
		return bee_path_decode(place, out, len);
	if (bee_place_check(h, path))
		return -LINUX_EXDEV;
	return abi_name_path_back((u16 *)place_root, place_root_len,
				  (u16 *)place, n, out, len);
}
