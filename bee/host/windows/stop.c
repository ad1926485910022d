// SPDX-License-Identifier: MIT
/*
 * Stop signals: the thread that takes one brings all others to rest
 * (bee/core/freeze.h) and sleeps until SIGCONT, which the signal thread gets.
 * So a process stops between two instructions of the guest and holds no lock of
 * Windows. Owns `stops`, and `stopped` of this process's record.
 */
#include "family.h"
#include "bee/core/freeze.h"

#define SIGCHLD 17

static SRWLOCK lock = SRWLOCK_INIT; /* of one stop after the other */
static u32 stops;		    /* those that are over; atomic */

/* What wait(2) reports next; its parent is told. */
static void change_report(u32 status)
{
	struct win_member *parent = bee_member_find(bee_family_own->parent);

	bee_family_own->change_told = 0;
	__atomic_store_n(&bee_family_own->change, status, __ATOMIC_SEQ_CST);
	if (parent)
		bee_member_signal(parent, SIGCHLD);
}

/* Whether another process could send SIGCONT. */
static int is_alone(void)
{
	return bee_family_own->parent == 1 && bee_family_count() == 1;
}

static s64 refuse_stop(void)
{
	static u32 said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message("a stop signal has no effect: no other process "
			       "of the run could continue this one");
	return 0;
}

s64 bee_stop(u32 signo)
{
	u32 seen = __atomic_load_n(&stops, __ATOMIC_SEQ_CST);

	if (is_alone())
		return refuse_stop();
	AcquireSRWLockExclusive(&lock);
	if (seen == __atomic_load_n(&stops, __ATOMIC_SEQ_CST)) {
		bee_freeze();
		__atomic_store_n(&bee_family_own->stopped, signo,
				 __ATOMIC_SEQ_CST);
		change_report(signo << 8 | WIN_STATUS_STOPPED);
		while (__atomic_load_n(&bee_family_own->stopped,
				       __ATOMIC_SEQ_CST))
			WaitOnAddress(&bee_family_own->stopped, &signo,
				      sizeof(signo), INFINITE);
		bee_thaw();
		__atomic_add_fetch(&stops, 1, __ATOMIC_SEQ_CST);
	}
	ReleaseSRWLockExclusive(&lock);
	return 0;
}

void bee_stop_end(void)
{
	u32 *stopped = &bee_family_own->stopped;

	if (!__atomic_exchange_n(stopped, 0, __ATOMIC_SEQ_CST))
		return;
	change_report(WIN_STATUS_CONTINUED);
	WakeByAddressAll(stopped);
}
