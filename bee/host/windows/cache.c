// SPDX-License-Identifier: MIT
/* Whole files for the image cache. Owns nothing. */
#include "win.h"
#include "abi/include/name.h"
#include "bee/core/cache.h"
#include <aclapi.h>
#include <stdio.h>

/* 1: the file belongs to the user who owns new files of this token. */
static int is_token(HANDLE token, TOKEN_INFORMATION_CLASS class, PSID owner)
{
	union {
		TOKEN_USER user;
		TOKEN_OWNER owner;
		u8 bytes[256];
	} t;
	DWORD n;

	if (!GetTokenInformation(token, class, &t, sizeof(t), &n))
		return 0;
	return EqualSid(owner,
			class == TokenUser ? t.user.User.Sid : t.owner.Owner);
}

/*
 * The permissions of the directory decide who else may write there; see
 * docs/design/bee.md.
 */
static int owner_is_us(HANDLE file)
{
	PSECURITY_DESCRIPTOR sd;
	HANDLE token;
	PSID owner;
	int ours;

	if (GetSecurityInfo(file, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION,
			    &owner, NULL, NULL, NULL, &sd))
		return 0;
	ours = OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token);
	if (ours) {
		ours = is_token(token, TokenUser, owner) ||
		       is_token(token, TokenOwner, owner);
		CloseHandle(token);
	}
	LocalFree(sd);
	return ours;
}

static s64 read_open(HANDLE file, u64 max, u8 **bytes, u64 *len,
		     const char **why)
{
	FILE_ATTRIBUTE_TAG_INFO tag;
	LARGE_INTEGER size;
	DWORD n = 0;

	if (!GetFileInformationByHandleEx(file, FileAttributeTagInfo, &tag,
					  sizeof(tag)) ||
	    !GetFileSizeEx(file, &size))
		return bee_win_last();
	if (tag.FileAttributes &
	    (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT))
		*why = "no regular file";
	else if (!owner_is_us(file))
		*why = "owned by another user";
	else if (size.QuadPart <= 0 || (u64)size.QuadPart > max)
		*why = "of the wrong size";
	if (*why)
		return 0;
	*len = (u64)size.QuadPart;
	*bytes = bee_os_alloc(*len);
	if (!*bytes)
		return -LINUX_ENOMEM;
	if (ReadFile(file, *bytes, (DWORD)*len, &n, NULL) && n == *len)
		return 0;
	bee_os_free(*bytes, *len);
	*bytes = NULL;
	return -LINUX_EIO;
}

s64 bee_os_cache_read(const char *path, u64 max, u8 **bytes, u64 *len,
		      const char **why)
{
	WCHAR wide[WIN_PATH_MAX];
	HANDLE file;
	s64 err = abi_utf8_to_utf16(path, strlen(path), (u16 *)wide,
				    WIN_PATH_MAX - 1);

	if (err < 0)
		return err;
	wide[err] = 0;
	file = CreateFileW(
		wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
		OPEN_EXISTING,
		FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
		NULL);
	if (file == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = read_open(file, max, bytes, len, why);
	CloseHandle(file);
	return err;
}

static s64 write_new(const WCHAR *name, const u8 *bytes, u64 len)
{
	HANDLE file;
	DWORD n = 0;
	s64 err = 0;

	if (len > 0x7fffffff)
		return -LINUX_EINVAL;
	file = CreateFileW(name, GENERIC_WRITE, 0, NULL, CREATE_NEW,
			   FILE_ATTRIBUTE_NORMAL, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return bee_win_last();
	if (!WriteFile(file, bytes, (DWORD)len, &n, NULL) || n != len)
		err = bee_win_last();
	CloseHandle(file);
	return err;
}

/*
 * The file has a temporary name first, so that no reader sees a partial file.
 */
s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len)
{
	WCHAR wide[WIN_PATH_MAX], temp[WIN_PATH_MAX];
	s64 err = abi_utf8_to_utf16(path, strlen(path), (u16 *)wide,
				    WIN_PATH_MAX - 1);

	if (err < 0)
		return err;
	wide[err] = 0;
	if (_snwprintf(temp, WIN_PATH_MAX, L"%ls.%lu", wide,
		       GetCurrentProcessId()) < 0)
		return -LINUX_ENAMETOOLONG;
	temp[WIN_PATH_MAX - 1] = 0;
	err = write_new(temp, bytes, len);
	if (!err && !MoveFileExW(temp, wide, MOVEFILE_REPLACE_EXISTING))
		err = bee_win_last();
	if (err)
		DeleteFileW(temp);
	return err;
}
