/* SPDX-License-Identifier: MIT */
/* File locks that may wait: the thread sleeps in the kernel until a kick. */
#include <errno.h>

#include "host.h"

s64 lin_file_lock(s32 handle, struct abi_filelock *l, u32 thread)
{
	struct abi_lin_lock_call call;
	s64 n;

	(void)thread;
	if (l->verb != ABI_FILELOCK_WAIT) {
		n = abi_lin_file_lock(handle, l);
		if (l->verb == ABI_FILELOCK_GET && lin_family_has(l->pid))
			l->pid = lin_family_guest(l->pid);
		return n;
	}
	abi_lin_file_lock_call(&call, handle, l);
	return lin_wait_call(call.nr, call.arg);
}
