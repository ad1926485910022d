// SPDX-License-Identifier: MIT
/* Operations on names. No state. */
#include "win.h"
#include "view.h"
#include "abi/include/name.h"
#include <stddef.h>
#include <stdio.h>

#define W_OK 2

/*
 * Headers declare this only for targets that the import library does not
 * support.
 */
#define RENAME_FLAGS 0x43 /* replace, POSIX semantics, ignore read-only */
#define DELETE_FLAGS 0x13 /* delete, POSIX semantics, ignore read-only */
#define CLASS_DISPOSITION_EX ((FILE_INFO_BY_HANDLE_CLASS)21)
#define CLASS_RENAME_EX ((FILE_INFO_BY_HANDLE_CLASS)22)
#define SYMLINK_UNPRIVILEGED 2
#define RENAME_NOREPLACE 1u

struct rename_info { /* FILE_RENAME_INFO with room for the name */
	DWORD flags;
	HANDLE root;
	DWORD name_bytes;
	WCHAR name[WIN_PATH_MAX];
};

static HANDLE open_itself(const WCHAR *path, DWORD access)
{
	return bee_place_open(path, access, OPEN_EXISTING,
			      FILE_FLAG_OPEN_REPARSE_POINT);
}

static s64 on_handle(const WCHAR *path, struct abi_path_op *op)
{
	DWORD access = FILE_READ_ATTRIBUTES;
	s64 err = -LINUX_EINVAL;
	HANDLE h;

	if (op->verb == ABI_PATH_CHMOD || op->verb == ABI_PATH_UTIMENS)
		access |= FILE_WRITE_ATTRIBUTES;
	h = bee_place_open(path, access, OPEN_EXISTING, 0);
	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	if (op->verb == ABI_PATH_STAT)
		err = bee_file_stat(h, op->stat);
	else if (op->verb == ABI_PATH_CHMOD)
		err = bee_file_chmod(h, op->mode);
	else if (op->verb == ABI_PATH_UTIMENS)
		err = bee_file_times(h, op->times);
	else if (op->verb == ABI_PATH_STATFS)
		err = bee_file_statfs(h, op->statfs);
	else if (op->verb == ABI_PATH_ACCESS)
		err = 0;
	CloseHandle(h);
	return err;
}

/* st_size of a link is the length of its text; programs rely on that. */
static s64 stat_followed(HANDLE h, const WCHAR *path, struct abi_stat *st)
{
	char text[4096];
	s64 n = bee_place_text(h, path, text, sizeof(text));

	st->mode = WIN_S_IFLNK | 0777;
	st->size = n < 0 ? 0 : (u64)n;
	st->nlink = 1;
	st->blocks = 0;
	return 0;
}

/* A link may lead outside the root, because it is not followed. */
static s64 lstat_path(const WCHAR *path, struct abi_stat *st)
{
	HANDLE h = bee_win_open(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
				FILE_FLAG_OPEN_REPARSE_POINT);
	s64 err;

	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = bee_file_stat(h, st);
	if (!err && bee_place_followed(h, path))
		err = stat_followed(h, path, st);
	else if (!err && bee_place_check(h, path))
		err = -LINUX_EXDEV;
	CloseHandle(h);
	return err;
}

static s64 access_path(const WCHAR *path, struct abi_path_op *op)
{
	DWORD a = GetFileAttributesW(path);
	s64 err;

	if (a == INVALID_FILE_ATTRIBUTES)
		return bee_win_last();
	err = on_handle(path, op);
	if (!err && (op->mode & W_OK) && (a & FILE_ATTRIBUTE_READONLY) &&
	    !(a & FILE_ATTRIBUTE_DIRECTORY))
		err = -LINUX_EACCES;
	return err;
}

/* Deletion --------------------------------------------------------------------
 */

static s64 is_directory(HANDLE h, int *dir)
{
	FILE_ATTRIBUTE_TAG_INFO i;

	if (!GetFileInformationByHandleEx(h, FileAttributeTagInfo, &i,
					  sizeof(i)))
		return bee_win_last();
	*dir = (i.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) &&
	       !(i.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT);
	return 0;
}

static s64 delete_at_close(HANDLE h)
{
	FILE_DISPOSITION_INFO plain = {.DeleteFile = TRUE};

	if (!SetFileInformationByHandle(h, FileDispositionInfo, &plain,
					sizeof(plain)))
		return bee_win_last();
	return 0;
}

/*
 * POSIX deletion removes the name at once even if the file is open. On volumes
 * without it the name stays until the last handle is closed.
 */
static s64 delete_handle(HANDLE h)
{
	DWORD flags = DELETE_FLAGS;
	s64 err;

	if (SetFileInformationByHandle(h, CLASS_DISPOSITION_EX, &flags,
				       sizeof(flags)))
		return 0;
	if (GetLastError() == ERROR_DIR_NOT_EMPTY)
		return -LINUX_ENOTEMPTY;
	err = bee_file_chmod(h, 0200);
	if (err)
		return err;
	bee_handle_gone(h);
	return delete_at_close(h);
}

/*
 * Gives a file another name in its directory, and returns whether that
 * succeeded.
 */
static int move_away(const WCHAR *path, WCHAR *away)
{
	static u32 count;
	const WCHAR *leaf = wcsrchr(path, L'\\');
	u64 dir = leaf ? (u64)(leaf - path) : 0;

	if (!dir || dir + 48 > WIN_PATH_MAX)
		return 0;
	memcpy(away, path, dir * sizeof(*path));
	swprintf(away + dir, 48, L"\\.bee-deleted-%lx-%x",
		 GetCurrentProcessId(),
		 __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
	return MoveFileExW(path, away, 0);
}

/*
 * A deleted file may keep its name until its last handle is closed. It gets
 * another name in its directory, so that the old name is free at once.
 */
static void rename_leftover(const WCHAR *path)
{
	WCHAR away[WIN_PATH_MAX];

	if (GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES &&
	    move_away(path, away))
		DeleteFileW(away);
}

/*
 * Windows may refuse to delete a mapped file, but allow to rename it and to
 * delete the new name. Returns whether the file is deleted. If not, the file
 * gets its old name back, unless a new file has that name by then.
 */
static int delete_moved(const WCHAR *path)
{
	WCHAR away[WIN_PATH_MAX];

	if (!move_away(path, away))
		return 0;
	if (DeleteFileW(away))
		return 1;
	MoveFileExW(away, path, 0);
	return 0;
}

static s64 delete_path(const WCHAR *path, int want_dir)
{
	DWORD access = DELETE | FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES;
	HANDLE h = open_itself(path, access);
	int dir = 0;
	s64 err;

	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = is_directory(h, &dir);
	if (!err && dir && !want_dir)
		err = -LINUX_EISDIR;
	if (!err && !dir && want_dir)
		err = -LINUX_ENOTDIR;
	if (!err && bee_place_itself(h, path))
		err = -LINUX_EPERM;
	if (!err)
		err = delete_handle(h);
	CloseHandle(h);
	if (err == -LINUX_EACCES && !want_dir && delete_moved(path))
		return 0;
	/*
	 * The name is still listed if a process has the file open and the
	 * volume has no POSIX deletion.
	 */
	if (!err && !want_dir)
		rename_leftover(path);
	return err;
}

/* Renaming
 * --------------------------------------------------------------------- */

static DWORD kind_bit(const WCHAR *path)
{
	DWORD a = GetFileAttributesW(path);

	return a == INVALID_FILE_ATTRIBUTES ? a : a & FILE_ATTRIBUTE_DIRECTORY;
}

static BOOL rename_posix(const WCHAR *from, const WCHAR *to)
{
	struct rename_info *i = bee_os_alloc(sizeof(*i));
	BOOL ok = FALSE;
	HANDLE h;
	DWORD e;

	if (!i)
		return FALSE;
	i->flags = RENAME_FLAGS;
	i->name_bytes = (DWORD)(wcslen(to) * sizeof(WCHAR));
	wcscpy(i->name, to);
	h = open_itself(from, DELETE | SYNCHRONIZE);
	if (h != INVALID_HANDLE_VALUE) {
		ok = SetFileInformationByHandle(
			h, CLASS_RENAME_EX, i,
			(DWORD)offsetof(struct rename_info, name) +
				i->name_bytes + sizeof(WCHAR));
		e = GetLastError();
		CloseHandle(h);
		SetLastError(e);
	}
	bee_os_free(i, sizeof(*i));
	return ok;
}

/*
 * For calls with two names, which change the name itself. Returns 0, or a
 * negative errno: -EPERM if Wine would follow the link at `path`.
 */
static s64 check_itself(const WCHAR *path)
{
	HANDLE h = open_itself(path, FILE_READ_ATTRIBUTES);
	s64 err;

	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = bee_place_itself(h, path) ? -LINUX_EPERM : 0;
	CloseHandle(h);
	return err;
}

static s64 rename_path(const WCHAR *from, const WCHAR *to, u32 flags)
{
	DWORD a = kind_bit(from), b = kind_bit(to);
	s64 err;

	if (flags & ~RENAME_NOREPLACE)
		return -LINUX_EINVAL;

	if (a == INVALID_FILE_ATTRIBUTES)
		return bee_win_last();
	err = check_itself(from);
	if (err)
		return err;
	if (flags)
		return MoveFileExW(from, to, 0) ? 0 : bee_win_last();
	if (b != INVALID_FILE_ATTRIBUTES && a != b)
		return a ? -LINUX_ENOTDIR : -LINUX_EISDIR;
	if (rename_posix(from, to))
		return 0;
	/* Neither call replaces a directory; on Linux it must be empty. */
	if (b == FILE_ATTRIBUTE_DIRECTORY && _wcsicmp(from, to)) {
		err = delete_path(to, 1);
		if (err)
			return err;
	}
	if (!MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING))
		return bee_win_last();
	return 0;
}

/* Links
 * -------------------------------------------------------------------------- */

/* A relative text remains relative. It is converted one component at a time. */
static s64 link_text(const char *text, WCHAR *out)
{
	const char *end;
	u64 n = 0;
	s64 len;

	if (*text == '/')
		return bee_path_encode(text, out);
	for (; *text; text = *end ? end + 1 : end) {
		for (end = text; *end && *end != '/'; end++)
			;
		if (n + 260 > WIN_PATH_MAX)
			return -LINUX_ENAMETOOLONG;
		if (n)
			out[n++] = '\\';
		len = abi_name_encode(text, (u64)(end - text), (u16 *)out + n,
				      256);
		if (len == -LINUX_EINVAL) { /* "." and ".." */
			for (len = 0; text + len < end; len++)
				out[n + len] = (WCHAR)text[len];
		}
		if (len < 0)
			return len;
		n += (u64)len;
	}
	out[n] = 0;
	return (s64)n;
}

static s64 symlink_path(const WCHAR *path, const char *text)
{
	DWORD flags = SYMLINK_UNPRIVILEGED;
	WCHAR target[WIN_PATH_MAX];
	s64 n = link_text(text, target);

	if (n < 0)
		return n;
	if (GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES)
		return -LINUX_EEXIST;
	if (!CreateSymbolicLinkW(path, target, flags))
		return bee_win_last();
	/* Wine 8 reports success without effect. */
	if (GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES)
		return -LINUX_EPERM;
	return 0;
}

static s64 readlink_path(const WCHAR *path, struct abi_path_op *op)
{
	HANDLE h = bee_win_open(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
				FILE_FLAG_OPEN_REPARSE_POINT);
	s64 n;

	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	if (bee_place_followed(h, path))
		n = bee_place_text(h, path, op->buf, op->len);
	else if (bee_place_check(h, path))
		n = -LINUX_EXDEV;
	else
		n = bee_link_read(h, op->buf, op->len);
	CloseHandle(h);
	return n;
}

static s64 truncate_path(const WCHAR *path, u64 len)
{
	HANDLE h = bee_place_open(path, GENERIC_WRITE, OPEN_EXISTING, 0);
	s64 err;

	if (h == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = kind_bit(path) == FILE_ATTRIBUTE_DIRECTORY
		      ? -LINUX_EISDIR
		      : bee_view_truncate(h, len);
	CloseHandle(h);
	return err;
}

static s64 link_path(const WCHAR *from, const WCHAR *to)
{
	s64 err = check_itself(from);

	if (!err && kind_bit(from) == FILE_ATTRIBUTE_DIRECTORY)
		err = -LINUX_EPERM;
	if (err)
		return err;
	return CreateHardLinkW(to, from, NULL) ? 0 : bee_win_last();
}

static s64 two_paths(struct abi_path_op *op, const WCHAR *path)
{
	WCHAR path2[WIN_PATH_MAX];
	HANDLE folder;
	s64 err = bee_path_encode(op->path2, path2);

	if (err < 0)
		return err;
	folder = bee_place_hold(path2);
	if (folder == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = op->verb == ABI_PATH_RENAME ? rename_path(path, path2, op->mode)
					  : link_path(path, path2);
	if (folder)
		CloseHandle(folder);
	return err;
}

static s64 one_path(struct abi_path_op *op, const WCHAR *path)
{
	switch (op->verb) {
	case ABI_PATH_STAT:
	case ABI_PATH_CHMOD:
	case ABI_PATH_STATFS:
	case ABI_PATH_UTIMENS:
		return on_handle(path, op);
	case ABI_PATH_LSTAT:
		return lstat_path(path, op->stat);
	case ABI_PATH_ACCESS:
		return access_path(path, op);
	case ABI_PATH_UNLINK:
		return delete_path(path, 0);
	case ABI_PATH_RMDIR:
		return delete_path(path, 1);
	case ABI_PATH_MKDIR:
		return CreateDirectoryW(path, NULL) ? 0 : bee_win_last();
	case ABI_PATH_RENAME:
	case ABI_PATH_LINK:
		return two_paths(op, path);
	case ABI_PATH_MKFIFO: /* Windows keeps no pipes in directories */
		return -LINUX_EPERM;
	case ABI_PATH_SYMLINK:
		return symlink_path(path, op->path2);
	case ABI_PATH_READLINK:
		return readlink_path(path, op);
	case ABI_PATH_TRUNCATE:
		return truncate_path(path, op->len);
	}
	return -LINUX_EINVAL;
}

static int changes_name(const struct abi_path_op *op)
{
	switch (op->verb) {
	case ABI_PATH_UNLINK:
	case ABI_PATH_RMDIR:
	case ABI_PATH_MKDIR:
	case ABI_PATH_RENAME:
	case ABI_PATH_LINK:
	case ABI_PATH_SYMLINK:
		return 1;
	default:
		return 0;
	}
}

s64 bee_path(struct abi_path_op *op)
{
	WCHAR path[WIN_PATH_MAX];
	HANDLE folder = NULL;
	s64 err = bee_path_encode(op->path, path);

	if (err < 0)
		return err;
	if (changes_name(op))
		folder = bee_place_hold(path);
	err = folder == INVALID_HANDLE_VALUE ? bee_win_last()
					     : one_path(op, path);
	if (folder && folder != INVALID_HANDLE_VALUE)
		CloseHandle(folder);
	return err == -LINUX_ENOENT ? bee_path_missing(path) : err;
}
