/* SPDX-License-Identifier: MIT */
/* The same work as calls.c by Win32 calls: prints "operation ns" lines. */
#include <windows.h>
#include "rounds.h"

static HANDLE null_handle, file;
static char kilobyte[1024];
static LONG wake_word;

double clock_ns(void)
{
	LARGE_INTEGER now, frequency;

	QueryPerformanceCounter(&now);
	QueryPerformanceFrequency(&frequency);
	return now.QuadPart * 1e9 / frequency.QuadPart;
}

static BOOL move_kilobyte(BOOL writing)
{
	OVERLAPPED at = {0};
	DWORD done = 0;
	BOOL ok = writing ? WriteFile(file, kilobyte, 1024, &done, &at)
			  : ReadFile(file, kilobyte, 1024, &done, &at);

	return ok && done == 1024;
}

static BOOL write_null(void)
{
	DWORD done;

	return WriteFile(null_handle, kilobyte, 64, &done, NULL);
}

static BOOL map_64k(void)
{
	char *p = VirtualAlloc(NULL, 65536, MEM_RESERVE | MEM_COMMIT,
			       PAGE_READWRITE);

	if (!p)
		return FALSE;
	*(volatile char *)p = 1;
	return VirtualFree(p, 0, MEM_RELEASE);
}

static BOOL get_time(void)
{
	LARGE_INTEGER now;

	return QueryPerformanceCounter(&now);
}

static BOOL wake_event(void)
{
	WakeByAddressSingle(&wake_word);
	return TRUE;
}

#define OPERATION(name, expression)                                            \
	static void name(long count)                                           \
	{                                                                      \
		while (count--)                                                \
			if (!(expression))                                     \
				exit(3);                                       \
	}

OPERATION(run_pid, GetCurrentProcessId())
OPERATION(run_clock, get_time())
OPERATION(run_null, write_null())
OPERATION(run_write, move_kilobyte(TRUE))
OPERATION(run_read, move_kilobyte(FALSE))
OPERATION(run_wake, wake_event())
OPERATION(run_map, map_64k())

static const struct operation operations[] = {
	{"getpid", run_pid},	      {"clock_gettime", run_clock},
	{"write_null_64", run_null},  {"write_file_1k", run_write},
	{"read_file_1k", run_read},   {"futex_wake", run_wake},
	{"mmap_munmap_64k", run_map},
};

int main(void)
{
	unsigned i;

	null_handle = CreateFileA("NUL", GENERIC_WRITE, FILE_SHARE_WRITE, NULL,
				  OPEN_EXISTING, 0, NULL);
	file = CreateFileA("bench.win", GENERIC_READ | GENERIC_WRITE, 0, NULL,
			   CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
	if (null_handle == INVALID_HANDLE_VALUE ||
	    file == INVALID_HANDLE_VALUE || !move_kilobyte(TRUE))
		return 2;
	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		printf("%s %.2f\n", operations[i].name,
		       median_ns(&operations[i]));
	CloseHandle(file);
	DeleteFileA("bench.win");
	return 0;
}
