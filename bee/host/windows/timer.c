// SPDX-License-Identifier: MIT
/*
 * The helper thread that fires guest timers and passes Ctrl-C to the guest. It
 * calls abi, so it has a thread block and slots, but no index: it cannot be
 * kicked. `armed` changes with `deadline` and `control`; the thread sleeps on
 * it. All three are atomic.
 */
#include "win.h"
#include "abi/include/siginfo.h"

#define NO_INDEX (~0u)
#define STACK 0x40000
#define SIGINT 2
#define SIGTERM 15
#define SI_KERNEL 0x80

static u64 deadline = ABI_FOREVER;
static u32 armed, control;

void bee_timer_arm(u64 deadline_ns)
{
	__atomic_store_n(&deadline, deadline_ns, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&armed, 1, __ATOMIC_SEQ_CST);
	WakeByAddressAll(&armed);
}

/*
 * If a timer was armed during abi_timer_fire, its deadline is newer than the
 * result.
 */
static void fire_timers(u64 now)
{
	u32 before = __atomic_load_n(&armed, __ATOMIC_SEQ_CST);
	u64 due = __atomic_load_n(&deadline, __ATOMIC_SEQ_CST), next;

	next = abi_timer_fire(bee.proc, now);
	if (__atomic_load_n(&armed, __ATOMIC_SEQ_CST) == before)
		__atomic_compare_exchange_n(&deadline, &due, next, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void send_control(void)
{
	u32 signo = __atomic_exchange_n(&control, 0, __ATOMIC_SEQ_CST);
	struct abi_siginfo info = {.signo = (s32)signo, .code = SI_KERNEL};

	if (signo)
		abi_signal_send(bee.proc, NULL, 0, &info);
}

static DWORD WINAPI helper_thread(void *arg)
{
	u64 until, now;
	u32 seen;

	bee_thread_adopt(arg);
	for (;;) {
		seen = __atomic_load_n(&armed, __ATOMIC_SEQ_CST);
		send_control();
		until = __atomic_load_n(&deadline, __ATOMIC_SEQ_CST);
		now = until == ABI_FOREVER
			      ? 0
			      : (u64)bee_clock(ABI_CLOCK_MONOTONIC);
		if (now < until)
			bee_wait(&armed, seen, until);
		else
			fire_timers(now);
	}
	return 0;
}

/* Windows calls this in a thread of its own, which has no slots. */
static BOOL WINAPI on_control(DWORD event)
{
	u32 signo = event == CTRL_C_EVENT ? SIGINT : SIGTERM;

	if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
		return FALSE;
	__atomic_store_n(&control, signo, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&armed, 1, __ATOMIC_SEQ_CST);
	WakeByAddressAll(&armed);
	return TRUE;
}

/* Called after bee_load. */
int bee_timer_start(void)
{
	struct win_thread *t = bee_thread_block(NO_INDEX);
	HANDLE h;

	if (!t)
		return ERROR_NOT_ENOUGH_MEMORY;
	h = CreateThread(NULL, STACK, helper_thread, t,
			 STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
	if (!h)
		return (int)GetLastError();
	CloseHandle(h);
	SetConsoleCtrlHandler(on_control, TRUE);
	return 0;
}
