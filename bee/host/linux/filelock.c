/* SPDX-License-Identifier: MIT */
/* File locks that may wait: the thread sleeps in the kernel until a kick. */
#include <errno.h>
#include <unistd.h>

#include "host.h"

s64 lin_file_lock(s32 handle, struct abi_filelock *l, u32 thread)
{
	struct abi_lin_lock_call call;
	struct lin_thread *t = lin_self();
	s64 n;

	(void)thread;
	if (l->verb != ABI_FILELOCK_WAIT) {
		n = abi_lin_file_lock(handle, l);
		if (l->verb == ABI_FILELOCK_GET && l->pid == getpid())
			l->pid = (s32)abi_proc_pid(bee.proc);
		return n;
	}
	abi_lin_file_lock_call(&call, handle, l);
	n = lin_block(&t->bee.kicked, call.nr, call.arg[0], call.arg[1],
		      call.arg[2]);
	if (n == -EINTR)
		__atomic_store_n(&t->bee.kicked, 0, __ATOMIC_SEQ_CST);
	return n;
}
