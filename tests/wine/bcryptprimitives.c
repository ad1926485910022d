/* SPDX-License-Identifier: MIT */
/*
 * The one function of bcryptprimitives.dll that Go programs call. Windows 10
 * has that library, Wine 8 has not. For prefixes of tests only, never shipped.
 */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length);

BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
	while (length) {
		ULONG part = length > 0x10000 ? 0x10000 : (ULONG)length;

		if (!RtlGenRandom(data, part))
			return FALSE;
		data += part;
		length -= part;
	}
	return TRUE;
}
