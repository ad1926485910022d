// SPDX-License-Identifier: MIT
/* A description of this machine, and random bytes. No state. */
#include "win.h"
#include "family.h"
#include "view.h"
#include <bcrypt.h>
#include <stdio.h>

s64 bee_random(void *buf, u64 len)
{
	while (len) {
		ULONG n = len > 0x100000 ? 0x100000 : (ULONG)len;

		if (BCryptGenRandom(NULL, buf, n,
				    BCRYPT_USE_SYSTEM_PREFERRED_RNG) < 0)
			return -LINUX_EIO;
		buf = (u8 *)buf + n;
		len -= n;
	}
	return 0;
}

#define USER_NAME 128

static void user_name(WCHAR name[USER_NAME], const WCHAR *kind,
		      const WCHAR *what)
{
	WCHAR user[64];
	DWORD n = GetEnvironmentVariableW(L"USERNAME", user, 64), i;

	if (!n || n >= 64)
		user[0] = 0;
	for (i = 0; user[i]; i++)
		if (user[i] == '\\')
			user[i] = '_';
	swprintf(name, USER_NAME, L"Local\\skep-bee-%ls-%ls-%ls", kind, user,
		 what);
}

HANDLE bee_user_section(const WCHAR *kind, u64 size)
{
	WCHAR name[USER_NAME];

	user_name(name, kind, L"table");
	return CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0,
				  (DWORD)size, name);
}

void *bee_user_table(const WCHAR *kind, u64 size, HANDLE *section,
		     HANDLE *mutex)
{
	WCHAR name[USER_NAME];

	user_name(name, kind, L"mutex");
	if (!*mutex)
		*mutex = CreateMutexW(NULL, FALSE, name);
	if (!*section)
		*section = bee_user_section(kind, size);
	return *mutex && *section ? MapViewOfFile(*section, FILE_MAP_WRITE, 0,
						  0, (SIZE_T)size)
				  : NULL;
}

const char *bee_wine_version(void)
{
	const char *(*version)(void);
	HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");

	version = (const char *(*)(void))(void *)GetProcAddress(
		ntdll, "wine_get_version");
	return version ? version() : NULL;
}

/* The build, from the file version of kernel32: the result of GetVersionEx
 * depends on a program's manifest. */
static void version_text(char *out, size_t len)
{
	const char *wine = bee_wine_version();
	OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof(v)};
	LONG(WINAPI * get)(OSVERSIONINFOW *);

	if (wine) {
		snprintf(out, len, "bee " SKEP_VERSION " on Wine %s", wine);
		return;
	}
	get = (LONG(WINAPI *)(OSVERSIONINFOW *))(void *)GetProcAddress(
		GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
	if (get)
		get(&v);
	snprintf(out, len, "bee " SKEP_VERSION " on Windows %lu.%lu.%lu",
		 v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
}

/* The host's name as on the network; the NetBIOS name is in capital letters,
 * and cut after 15. */
static void name_node(char *to, u32 len)
{
	WCHAR name[65];
	DWORD n = sizeof(name) / sizeof(*name);

	if (!GetComputerNameExW(ComputerNamePhysicalDnsHostname, name, &n) ||
	    !WideCharToMultiByte(CP_UTF8, 0, name, -1, to, (int)len, NULL,
				 NULL))
		strcpy(to, "bee");
}

s64 bee_info(struct abi_host_info *info)
{
	MEMORYSTATUSEX m = {.dwLength = sizeof(m)};
	SYSTEM_INFO s;

	memset(info, 0, sizeof(*info));
	GetSystemInfo(&s);
	if (!GlobalMemoryStatusEx(&m))
		return bee_win_last();
	info->cpus = s.dwNumberOfProcessors;
	info->pid = bee_family_pid();
	info->spawns = ABI_SPAWNS_COPIES;
	if (!info->pid)
		info->pid = GetCurrentProcessId();
	info->uid = 1000;
	info->gid = 1000;
	info->umask = 022;
	info->mem_total = m.ullTotalPhys;
	info->mem_free = m.ullAvailPhys;
	info->mem_limit = m.ullAvailPageFile;
	if (bee.options && bee.options->memory &&
	    bee.options->memory < info->mem_limit)
		info->mem_limit = bee.options->memory;
	info->file_window = WIN_WINDOW_START;
	info->xsave_size = bee_xsave_size();
	info->xsave_mask = bee_xsave_mask();
	name_node(info->node, sizeof(info->node));
	version_text(info->machine, sizeof(info->machine));
	return 0;
}
