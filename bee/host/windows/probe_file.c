// SPDX-License-Identifier: MIT
/* Probe: what the file system of the temporary directory offers. */
#include "probe.h"
#include "view.h"
#include <stdio.h>

#define SHARE (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define CLASS_DISPOSITION_EX ((FILE_INFO_BY_HANDLE_CLASS)21)
#define DELETE_POSIX 0x3

static WCHAR dir[MAX_PATH];

static void make_name(WCHAR *out, const WCHAR *leaf)
{
	swprintf(out, MAX_PATH, L"%ls\\%ls", dir, leaf);
}

static HANDLE make_file(const WCHAR *path)
{
	return CreateFileW(path, GENERIC_READ | GENERIC_WRITE | DELETE, SHARE,
			   NULL, CREATE_ALWAYS, 0, NULL);
}

static int file_exists(const WCHAR *path)
{
	return GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
}

static void posix_delete(void)
{
	DWORD flags = DELETE_POSIX, error = 0;
	WCHAR path[MAX_PATH];
	HANDLE h, other;
	int gone;

	make_name(path, L"delete");
	h = make_file(path);
	other = CreateFileW(path, GENERIC_READ, SHARE, NULL, OPEN_EXISTING, 0,
			    NULL);
	if (!SetFileInformationByHandle(h, CLASS_DISPOSITION_EX, &flags,
					sizeof(flags)))
		error = GetLastError();
	CloseHandle(h);
	gone = !file_exists(path);
	if (other != INVALID_HANDLE_VALUE)
		CloseHandle(other);
	DeleteFileW(path);
	bee_probe_line("posix-delete",
		       gone    ? PROBE_OK
		       : error ? PROBE_ABSENT
			       : PROBE_ACCEPTED,
		       "error %lu; the name of a deleted open file %s", error,
		       gone ? "disappears at once"
			    : "stays until it is closed");
}

static void rename_over(void)
{
	WCHAR from[MAX_PATH], to[MAX_PATH];
	HANDLE a, b;
	BOOL ok;

	make_name(from, L"from");
	make_name(to, L"to");
	a = make_file(from);
	b = make_file(to);
	CloseHandle(a);
	ok = MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING);
	bee_probe_line("rename-over-open", ok ? PROBE_OK : PROBE_ABSENT,
		       "MoveFileEx over an open file: error %lu",
		       ok ? 0 : GetLastError());
	CloseHandle(b);
	DeleteFileW(from);
	DeleteFileW(to);
}

static void long_path(void)
{
	WCHAR path[1024];
	u32 i, n;
	BOOL ok;

	n = (u32)swprintf(path, 1024, L"\\\\?\\%ls\\", dir);
	for (i = 0; i < 240; i++)
		path[n + i] = 'd';
	path[n + 240] = 0;
	ok = CreateDirectoryW(path, NULL);
	wcscpy(path + n + 240, L"\\a-file-with-a-long-name-behind-it");
	if (ok) {
		HANDLE h = make_file(path);

		ok = h != INVALID_HANDLE_VALUE;
		CloseHandle(h);
		DeleteFileW(path);
		path[n + 240] = 0;
		RemoveDirectoryW(path);
	}
	bee_probe_line("long-paths", ok ? PROBE_OK : PROBE_ABSENT,
		       "names beyond 260 characters");
}

static void probe_symlink(void)
{
	WCHAR path[MAX_PATH];
	int there;
	BOOL ok;

	make_name(path, L"link");
	ok = CreateSymbolicLinkW(path, L"nowhere", 2);
	there = file_exists(path);
	bee_probe_line("symlinks",
		       ok && there ? PROBE_OK
		       : ok	   ? PROBE_ACCEPTED
				   : PROBE_ABSENT,
		       "CreateSymbolicLink says %s, the link is %s",
		       ok ? "yes" : "no", there ? "there" : "not there");
	DeleteFileW(path);
}

static void probe_append(void)
{
	OVERLAPPED end = {.Offset = ~0u, .OffsetHigh = ~0u};
	LARGE_INTEGER size = {.QuadPart = 0};
	WCHAR path[MAX_PATH];
	DWORD n;
	HANDLE h;

	make_name(path, L"append");
	h = make_file(path);
	WriteFile(h, "abc", 3, &n, NULL);
	WriteFile(h, "def", 3, &n, &end);
	GetFileSizeEx(h, &size);
	CloseHandle(h);
	DeleteFileW(path);
	bee_probe_line("append", size.QuadPart == 6 ? PROBE_OK : PROBE_BAD,
		       "offset -1 writes at the end: size %lld", size.QuadPart);
}

/*
 * The mapping is in the window and has an offset of 64 KiB, as one of a program
 * may have.
 */
static void probe_view(void)
{
	DWORD n, word = 0, error;
	WCHAR path[MAX_PATH];
	LARGE_INTEGER to = {.QuadPart = 0x10fff};
	volatile DWORD *at;
	HANDLE h, section;
	int both;

	make_name(path, L"view");
	h = make_file(path);
	SetFilePointerEx(h, to, NULL, FILE_BEGIN);
	WriteFile(h, "", 1, &n, NULL);
	section = CreateFileMappingW(h, NULL, PAGE_READWRITE, 0, 0, NULL);
	at = MapViewOfFileEx(section, FILE_MAP_WRITE, 0, 0x10000, 0x1000,
			     (void *)WIN_WINDOW_START);
	error = at ? 0 : GetLastError();
	to.QuadPart = 0x10000;
	SetFilePointerEx(h, to, NULL, FILE_BEGIN);
	WriteFile(h, "wxyz", 4, &n, NULL);
	both = at && *at == 0x7a797877;
	if (at)
		at[1] = 7;
	ReadFile(h, &word, 4, &n, NULL);
	bee_probe_line("file-view", both && word == 7 ? PROBE_OK : PROBE_BAD,
		       "a view at 0x%llx: error %lu; WriteFile %s in it, its "
		       "stores %s in ReadFile",
		       WIN_WINDOW_START, error,
		       both ? "shows" : "does not show",
		       word == 7 ? "show" : "do not show");
	if (at)
		UnmapViewOfFile((void *)at);
	CloseHandle(section);
	CloseHandle(h);
	DeleteFileW(path);
}

void bee_probe_files(void)
{
	WCHAR temp[MAX_PATH - 40];

	GetTempPathW(MAX_PATH - 40, temp);
	swprintf(dir, MAX_PATH, L"%lsbee-probe-%lx", temp,
		 GetCurrentProcessId());
	if (!CreateDirectoryW(dir, NULL)) {
		bee_probe_line("files", PROBE_BAD,
			       "no temporary directory: error %lu",
			       GetLastError());
		return;
	}
	posix_delete();
	rename_over();
	probe_append();
	probe_view();
	long_path();
	probe_symlink();
	RemoveDirectoryW(dir);
}
