// SPDX-License-Identifier: MIT
/*
 * A native Windows program that locks bytes of a file by LockFileEx.
 * usage: locker FILE try|hold FIRST COUNT r|w
 *
 * try says if it can be had; hold takes it, makes "locked" and waits for
 * "drop".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

static BOOL file_exists(const char *name)
{
	return GetFileAttributesA(name) != INVALID_FILE_ATTRIBUTES;
}

int main(int argc, char **argv)
{
	OVERLAPPED at = {0};
	DWORD how = LOCKFILE_FAIL_IMMEDIATELY;
	HANDLE h;

	if (argc != 6)
		return 2;
	h = CreateFileA(argv[1], GENERIC_READ | GENERIC_WRITE,
			FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
			NULL, OPEN_EXISTING, 0, NULL);
	if (h == INVALID_HANDLE_VALUE)
		return 3;
	at.Offset = strtoul(argv[3], NULL, 0);
	if (*argv[5] == 'w')
		how |= LOCKFILE_EXCLUSIVE_LOCK;
	if (!LockFileEx(h, how, 0, strtoul(argv[4], NULL, 0), 0, &at)) {
		puts(GetLastError() == ERROR_LOCK_VIOLATION ? "locked"
							    : "error");
		return 0;
	}
	puts("free");
	if (strcmp(argv[2], "hold"))
		return 0;
	CloseHandle(CreateFileA("locked", GENERIC_WRITE, 0, NULL, CREATE_ALWAYS,
				0, NULL));
	while (!file_exists("drop"))
		Sleep(1);
	return 0;
}
