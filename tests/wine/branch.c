// SPDX-License-Identifier: MIT
/*
 * What bee's names do on Windows and never under Wine 8: POSIX deletion and
 * renaming succeed, symbolic links exist, and no function is Wine's own. The
 * functions of Win32 that behave differently are replaced by ones that behave
 * as Windows documents; all others are Wine's.
 */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <string.h>

#include "bee/host/windows/win.h"
#include <winioctl.h>

struct bee bee;

static DWORD answer; /* of the replaced function: 0, or its error */
static int moved, gone, disposed;   /* calls */
static DWORD seen_flags;	    /* that bee gave */
static const WCHAR *current, *file; /* directory; what a handle is open to */
static BYTE reparse[64];
static DWORD reparse_length;

static BOOL answer_as(DWORD error)
{
	SetLastError(error);
	return !error;
}

static LONG WINAPI windows_version(OSVERSIONINFOW *v)
{
	v->dwMajorVersion = 10;
	v->dwMinorVersion = 0;
	v->dwBuildNumber = 19045;
	return 0;
}

/* ntdll of Windows: no function of Wine's. */
static FARPROC test_address(HMODULE module, const char *name)
{
	(void)module;
	return strcmp(name, "RtlGetVersion") ? NULL
					     : (FARPROC)(void *)windows_version;
}

static DWORD test_directory(DWORD size, WCHAR *out)
{
	if (wcslen(current) >= size)
		return 0;
	wcscpy(out, current);
	return (DWORD)wcslen(out);
}

static BOOL test_move(const WCHAR *from, const WCHAR *to, DWORD flags)
{
	moved++;
	return MoveFileExW(from, to, flags);
}

/* The classes that Wine 8 lacks, as a volume of NTFS serves them. */
static BOOL test_set(HANDLE h, FILE_INFO_BY_HANDLE_CLASS class, void *info,
		     DWORD len)
{
	const struct {
		DWORD flags;
		HANDLE root;
		DWORD name_bytes;
		WCHAR name[];
	} *rename = info;

	if (class == FileDispositionInfo)
		disposed++;
	if (class != (FILE_INFO_BY_HANDLE_CLASS)21 &&
	    class != (FILE_INFO_BY_HANDLE_CLASS)22)
		return SetFileInformationByHandle(h, class, info, len);
	seen_flags = *(DWORD *)info;
	if (answer)
		return answer_as(answer);
	if (class == (FILE_INFO_BY_HANDLE_CLASS)21)
		return MoveFileExW(file, L"branch-unlinked",
				   MOVEFILE_REPLACE_EXISTING);
	if (rename->root || rename->name_bytes != 2 * wcslen(rename->name))
		return answer_as(ERROR_INVALID_PARAMETER);
	return MoveFileExW(file, rename->name, MOVEFILE_REPLACE_EXISTING);
}

static BOOLEAN test_symlink(const WCHAR *path, const WCHAR *target, DWORD flags)
{
	HANDLE h;

	(void)target;
	seen_flags = flags;
	if (answer)
		return (BOOLEAN)answer_as(answer);
	h = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
	return h != INVALID_HANDLE_VALUE && CloseHandle(h);
}

static BOOL test_control(HANDLE h, DWORD code, void *in, DWORD in_len,
			 void *out, DWORD out_len, DWORD *got,
			 OVERLAPPED *overlapped)
{
	(void)h, (void)in, (void)in_len, (void)overlapped;
	if (code != FSCTL_GET_REPARSE_POINT || out_len < reparse_length)
		return FALSE;
	memcpy(out, reparse, reparse_length);
	*got = reparse_length;
	return TRUE;
}

#define GetProcAddress test_address
#define GetCurrentDirectoryW test_directory
#define MoveFileExW test_move
#define SetFileInformationByHandle test_set
#define CreateSymbolicLinkW test_symlink
#define DeviceIoControl test_control
#include "bee/host/windows/info.c"
#include "bee/host/windows/link.c"
#include "bee/host/windows/path.c"
#include "bee/host/windows/place.c"
#include "bee/host/windows/root.c"
#undef MoveFileExW
#undef SetFileInformationByHandle

#include "tests/tap.h"

u32 bee_family_pid(void)
{
	return 0;
}

/* What these need of the rest of bee. */
void *bee_os_alloc(u64 len)
{
	return calloc(1, len);
}

void bee_os_free(void *p, u64 len)
{
	(void)len;
	free(p);
}

static int sentences;

void bee_log(const char *line)
{
	(void)line;
	sentences++;
}

void bee_handle_gone(HANDLE h)
{
	(void)h;
	gone++;
}

HANDLE bee_win_open(const WCHAR *path, DWORD access, DWORD create, DWORD flags)
{
	return CreateFileW(path, access, 7, NULL, create,
			   flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

s64 bee_file_chmod(HANDLE h, u32 mode)
{
	(void)h, (void)mode;
	return 0;
}

s64 bee_file_stat(HANDLE h, struct abi_stat *st)
{
	(void)h, (void)st;
	return -LINUX_ENOSYS;
}

s64 bee_file_statfs(HANDLE h, struct abi_statfs *fs)
{
	(void)h, (void)fs;
	return -LINUX_ENOSYS;
}

s64 bee_file_times(HANDLE h, const s64 times[2])
{
	(void)h, (void)times;
	return -LINUX_ENOSYS;
}

s64 bee_view_truncate(HANDLE h, u64 len)
{
	(void)h, (void)len;
	return -LINUX_ENOSYS;
}

u64 bee_xsave_size(void)
{
	return 512;
}

u64 bee_xsave_mask(void)
{
	return 3;
}

/* Files of the current directory. */
static int is_there(const WCHAR *name)
{
	return GetFileAttributesW(name) != INVALID_FILE_ATTRIBUTES;
}

static HANDLE file_new(const WCHAR *name)
{
	file = name;
	return CreateFileW(name, GENERIC_WRITE | DELETE, 7, NULL, CREATE_ALWAYS,
			   0, NULL);
}

static void test_deletion(void)
{
	HANDLE open = file_new(L"branch-open");

	answer = gone = disposed = moved = 0;
	tap_ok(!delete_path(L"branch-open", 0) && !is_there(L"branch-open") &&
		       seen_flags == 0x13,
	       "POSIX deletion takes the name of an open file");
	tap_ok(!gone && !disposed && !moved,
	       "POSIX deletion needs no second name");
	CloseHandle(open);
	DeleteFileW(L"branch-unlinked");
	CreateDirectoryW(L"branch-dir", NULL);
	answer = ERROR_DIR_NOT_EMPTY;
	tap_ok(delete_path(L"branch-dir", 1) == -LINUX_ENOTEMPTY && !disposed,
	       "a directory that is not empty is not removed");
	answer = ERROR_INVALID_PARAMETER; /* a volume without POSIX deletion */
	tap_ok(!delete_path(L"branch-dir", 1) && disposed == 1 && gone == 1,
	       "without POSIX deletion ordinary deletion is used");
	RemoveDirectoryW(L"branch-dir");
}

static void test_renaming(void)
{
	HANDLE from = file_new(L"branch-from");
	HANDLE to = file_new(L"branch-to");

	file = L"branch-from";
	answer = moved = 0;
	CloseHandle(to);
	tap_ok(!rename_path(L"branch-from", L"branch-to", 0) && !moved &&
		       seen_flags == 0x43 && !is_there(file) &&
		       is_there(L"branch-to"),
	       "POSIX renaming replaces a file");
	CloseHandle(from);
	CloseHandle(file_new(L"branch-from"));
	answer = ERROR_INVALID_PARAMETER;
	tap_ok(!rename_path(L"branch-from", L"branch-to", 0) && moved == 1,
	       "without POSIX renaming ordinary renaming is used");
	DeleteFileW(L"branch-to");
}

static void test_links(void)
{
	answer = 0;
	tap_ok(!symlink_path(L"branch-link", "a/b") && seen_flags == 2,
	       "a symbolic link is made without the privilege");
	tap_ok(symlink_path(L"branch-link", "a") == -LINUX_EEXIST,
	       "a link over an existing name is refused");
	DeleteFileW(L"branch-link");
	answer = ERROR_PRIVILEGE_NOT_HELD;
	tap_ok(symlink_path(L"branch-link", "a") == -LINUX_EPERM,
	       "a link that needs the privilege is refused");
}

/* Reparse data of a symbolic link, of which `claimed` units are text. */
static s64 link_read(u32 flags, const WCHAR *text, u32 claimed, char *out)
{
	u32 tag = IO_REPARSE_TAG_SYMLINK;
	u16 bytes = (u16)(2 * claimed);
	s64 n;

	memset(reparse, 0, sizeof(reparse));
	memcpy(reparse, &tag, 4);
	memcpy(reparse + 10, &bytes, 2);
	memcpy(reparse + 16, &flags, 4);
	memcpy(reparse + 20, text, 2 * wcslen(text));
	reparse_length = 20 + 2 * (DWORD)wcslen(text);
	n = bee_link_read(NULL, out, 64);
	if (n >= 0)
		out[n] = 0;
	return n;
}

static void test_link_texts(void)
{
	char out[65];

	root_len = 3;
	wcscpy(root, L"C:\\");
	tap_ok(link_read(1, L"..\\a\\.\\b", 8, out) == 8 &&
		       !strcmp(out, "../a/./b"),
	       "a relative link is read with slashes");
	tap_ok(link_read(0, L"\\??\\C:\\a\\b", 10, out) == 4 &&
		       !strcmp(out, "/a/b"),
	       "an absolute link is read below the root");
	tap_ok(link_read(1, L"ab", 3, out) == -LINUX_EIO,
	       "a link that claims more text than it has is refused");
	link_read(1, L"ab", 2, out);
	reparse[0] ^= 1;
	tap_ok(bee_link_read(NULL, out, 64) == -LINUX_EINVAL,
	       "other reparse data are not a link");
	reparse[0] ^= 1;
	reparse_length = 8;
	tap_ok(bee_link_read(NULL, out, 64) == -LINUX_EINVAL,
	       "truncated reparse data are not a link");
}

static void test_system(void)
{
	WCHAR path[WIN_PATH_MAX];
	struct abi_host_info info;

	current = L"D:\\users\\me";
	tap_ok(!bee_root_set(NULL) && bee_path_encode("/a", path) > 0 &&
		       wcsstr(path, L"D:\\a"),
	       "the root is the current drive");
	current = L"\\\\server\\share";
	tap_ok(bee_root_set(NULL),
	       "a share without a drive letter is refused as root");
	tap_ok(!bee_wine_version() && !bee_info(&info) &&
		       strstr(info.machine, "on Windows 10.0.19045"),
	       "uname names Windows and its build");
}

/* A root, a folder beside it whose name begins like the root's, and files. */
static void test_places(void)
{
	WCHAR inside[WIN_PATH_MAX], beside[WIN_PATH_MAX];
	HANDLE h;

	CreateDirectoryW(L"branch-root", NULL);
	CreateDirectoryW(L"branch-root2", NULL);
	CloseHandle(file_new(L"branch-root2\\f"));
	GetFullPathNameW(L"branch-root2\\f", WIN_PATH_MAX, beside, NULL);
	h = bee_place_open(beside, GENERIC_READ, OPEN_EXISTING, 0);
	tap_ok(h != INVALID_HANDLE_VALUE && !bee_place_hold(beside) &&
		       CloseHandle(h),
	       "without a root every place is right");
	tap_ok(!bee_root_set("branch-root") &&
		       bee_path_encode("/new", inside) > 0,
	       "a root is a place");
	h = bee_place_open(beside, GENERIC_READ, OPEN_EXISTING, 0);
	tap_ok(h == INVALID_HANDLE_VALUE && bee_win_last() == -LINUX_EXDEV &&
		       sentences == 1,
	       "what is open outside the root is refused by name");
	h = bee_place_hold(beside);
	tap_ok(h == INVALID_HANDLE_VALUE && bee_win_last() == -LINUX_EXDEV,
	       "a folder outside the root is not held");
	h = bee_place_open(inside, GENERIC_WRITE, OPEN_ALWAYS, 0);
	tap_ok(h != INVALID_HANDLE_VALUE && CloseHandle(h),
	       "a file is made below the root");
	h = bee_place_hold(inside);
	tap_ok(h && h != INVALID_HANDLE_VALUE &&
		       !MoveFileExW(L"branch-root", L"branch-root3", 0) &&
		       CloseHandle(h) && DeleteFileW(inside),
	       "a folder that is held keeps its name");
	DeleteFileW(beside);
	RemoveDirectoryW(L"branch-root2");
	RemoveDirectoryW(L"branch-root");
}

int main(void)
{
	WCHAR temp[MAX_PATH];

	_setmode(1, _O_BINARY);
	GetTempPathW(MAX_PATH, temp);
	SetCurrentDirectoryW(temp);
	test_deletion();
	test_renaming();
	test_links();
	test_link_texts();
	test_system();
	test_places();
	return tap_done();
}
