// SPDX-License-Identifier: MIT
/*
 * Robust futexes of a process that ends: host->robust. Windows runs no code of
 * a process that TerminateProcess ends, so a process with robust futexes ends
 * itself, also for SIGKILL of its run: whoever kills it asks its signal thread.
 * That brings the guest's threads to rest (bee/core/freeze.h), so that none
 * holds a lock of bee's or executes the guest's code, and then walks their
 * lists.
 *
 * Owns `ender`, and `robust` and `killed` of this process's record.
 */
#include "family.h"
#include "bee/core/freeze.h"

#define THREADS 1024
#define WAKE_BITSET 10
#define REST_TRIES 1000 /* of about a millisecond */
#define ANSWER_MS 5000

static u32 ender;  /* atomic: a thread ends the process */
static u32 parked; /* atomic: other threads that were about to */

s64 bee_robust_watch(void)
{
	if (bee_family_own)
		__atomic_store_n(&bee_family_own->robust, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void wake_one(u64 gaddr)
{
	struct abi_futex_op op = {.command = WAKE_BITSET,
				  .value = 1,
				  .value3 = ~0u,
				  .addr = gaddr};

	bee_futex(&op, 0);
}

/* The number of guest threads that are not at rest. */
static u32 busy_count(void)
{
	u32 i, state, n = 0;

	for (i = 0; i < THREADS; i++) {
		state = __atomic_load_n(&abi_thread_get(bee.proc, i)->state,
					__ATOMIC_SEQ_CST);
		n += (state == ABI_THREAD_LIVE ||
		      state == ABI_THREAD_STARTING) &&
		     !bee_rest_of(i);
	}
	return n;
}

/*
 * self: 1 if the caller is a guest thread. A thread that does not come to rest
 * is in a call of Windows, and rests before the guest's next instruction.
 */
static void release_all(u32 self)
{
	u32 i;

	bee_freeze();
	for (i = 0; i < REST_TRIES; i++) {
		if (busy_count() <=
		    self + __atomic_load_n(&parked, __ATOMIC_SEQ_CST))
			break;
		Sleep(1);
	}
	abi_robust_dead(bee.proc, wake_one);
}

void bee_robust_end(u32 self)
{
	if (!bee_family_own ||
	    !__atomic_load_n(&bee_family_own->robust, __ATOMIC_SEQ_CST))
		return;
	if (__atomic_exchange_n(&ender, 1, __ATOMIC_SEQ_CST)) {
		__atomic_add_fetch(&parked, self, __ATOMIC_SEQ_CST);
		Sleep(INFINITE);
	}
	release_all(self);
	__atomic_store_n(&bee_family_own->robust, 0, __ATOMIC_SEQ_CST);
}

void bee_robust_killed(void)
{
	if (!__atomic_load_n(&bee_family_own->killed, __ATOMIC_SEQ_CST))
		return;
	bee_robust_end(0);
	TerminateProcess(GetCurrentProcess(), BEE_EXIT_SIGNAL + WIN_SIGKILL);
}

/* It may hang, or be too young to answer; then the caller ends it. */
void bee_robust_kill(struct win_member *m, HANDLE process)
{
	if (!__atomic_load_n(&m->robust, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&m->killed, 1, __ATOMIC_SEQ_CST);
	bee_member_wake(m);
	WaitForSingleObject(process, ANSWER_MS);
}
