/* SPDX-License-Identifier: MIT */
/* The table of threads. */
#ifndef ABI_STATE_THREADS_H
#define ABI_STATE_THREADS_H

#include "abi/include/thread_state.h"
#include "lock.h"

struct abi_threads {
	struct abi_lock lock;
	u32 live;	 /* threads that have not exited */
	u32 cursor;	 /* where the search for a free index starts */
	u32 high;	 /* one more than the highest index ever used; atomic */
	u32 main_status; /* exit code of thread 0, once it exited */
	u32 said_children, said_pi, said_shared, said_robust,
		said_owner; /* log lines that were written */
	s32 nice;	    /* of setpriority; atomic */
	/* robust.c: whether the process has writable shared memory, and a
	 * robust list, and whether the host watches it; atomic */
	u32 shares, robust, watched;
	struct abi_thread thread[ABI_THREADS_MAX];
};

#endif
