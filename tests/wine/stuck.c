/* SPDX-License-Identifier: MIT */
/*
 * In the place of bee.exe: a child of fork that does not get far. Makes the
 * file `trying` in its folder, and ends with 1 when there is the file `go`.
 */
#include <wchar.h>
#include <windows.h>

static WCHAR path[MAX_PATH];

static const WCHAR *name_of(const WCHAR *what)
{
	WCHAR *slash;

	if (!GetModuleFileNameW(NULL, path, MAX_PATH - 16))
		return L"";
	slash = wcsrchr(path, '\\');
	wcscpy(slash ? slash + 1 : path, what);
	return path;
}

int main(void)
{
	int i;

	CloseHandle(CreateFileW(name_of(L"trying"), GENERIC_WRITE, 0, NULL,
				CREATE_ALWAYS, 0, NULL));
	for (i = 0; i < 6000; i++) {
		if (GetFileAttributesW(name_of(L"go")) !=
		    INVALID_FILE_ATTRIBUTES)
			break;
		Sleep(10);
	}
	return 1;
}
