/* SPDX-License-Identifier: MIT */
/* Code that a guest generates at run time: it is checked, never rewritten. */
#include "bee/core/core.h"

#define EACCES 13

/*
 * Called through the gate with the host's FS, from any thread. abi keeps the
 * bytes writable and unshared until this returns.
 */
s64 bee_text_seal(u64 addr, u64 len)
{
	struct abi_text text;
	char why[160], line[256];
	u64 bad = 0;

	if (!bee_text_check((const u8 *)(__UINTPTR_TYPE__)addr, len, &bad, why))
		return 0;
	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "run-time generated code is refused at 0x");
	abi_text_hex(&text, addr + bad, 1);
	abi_text_str(&text, ": ");
	abi_text_str(&text, why);
	bee_os_message(line);
	return -EACCES;
}
