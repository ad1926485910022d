// SPDX-License-Identifier: MIT
/* Whole files for the image cache. Owns nothing. */
#include "win.h"
#include "abi/include/name.h"
#include "bee/core/cache.h"
#include <stdio.h>

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

/* Under a name of its own first, so that no reader sees a part of it. */
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
