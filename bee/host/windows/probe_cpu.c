// SPDX-License-Identifier: MIT
/* Probe: exceptions, FS, vector state, clocks and waits. */
#include "probe.h"
#include <cpuid.h>

#define ROOM 0x10000
#define FILL 0x5a

static LONG WINAPI step_over(EXCEPTION_POINTERS *e)
{
	CONTEXT *c = e->ContextRecord;

	if (c->Rip == (u64)bee_probe_trap_at)
		c->Rip += 2;
	else if (c->Rip == (u64)bee_probe_fs_at)
		c->Rip += 5;
	else
		return EXCEPTION_CONTINUE_SEARCH;
	return EXCEPTION_CONTINUE_EXECUTION;
}

/* How far below the stack pointer Windows writes after a fault. */
static void exception_frame(void)
{
	u8 *stack = bee_os_alloc(ROOM);
	u64 low = 0, nearest;
	void *handler;

	if (!stack)
		return;
	memset(stack, FILL, ROOM);
	handler = AddVectoredExceptionHandler(1, step_over);
	bee_probe_trap(stack + ROOM - 256);
	RemoveVectoredExceptionHandler(handler);
	while (low < ROOM && stack[low] == FILL)
		low++;
	for (nearest = ROOM - 256; nearest > low && stack[nearest - 1] == FILL;
	     nearest--)
		;
	bee_probe_line("exception-frame", PROBE_OK,
		       "%llu bytes below the stack pointer, from %llu on",
		       ROOM - 256 - low, ROOM - 256 - nearest);
	bee_os_free(stack, ROOM);
}

static DWORD WINAPI fs_thread(void *out)
{
	u64 *fs = out;

	fs[0] = bee_probe_fs();
	Sleep(2);
	fs[1] = bee_probe_fs();
	return 0;
}

static void fs_base(void)
{
	void *handler = AddVectoredExceptionHandler(1, step_over);
	u64 fs[2] = {0, 0};
	HANDLE h = CreateThread(NULL, 0, fs_thread, fs, 0, NULL);

	if (h) {
		WaitForSingleObject(h, INFINITE);
		CloseHandle(h);
	}
	RemoveVectoredExceptionHandler(handler);
	if (fs[0] == ~0ull)
		bee_probe_line("fs-base", PROBE_ABSENT,
			       "rdfsbase is not enabled");
	else
		bee_probe_line("fs-base", PROBE_OK,
			       "0x%llx in a new thread, 0x%llx after a sleep",
			       fs[0], fs[1]);
}

static u64 read_xcr(u32 index)
{
	u32 low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(index));
	return (u64)high << 32 | low;
}

static void vector_state(void)
{
	u32 a, b, c, d;

	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE)) {
		bee_probe_line("vector-state", PROBE_ABSENT,
			       "no XSAVE: fxsave is used");
		return;
	}
	__cpuid_count(0xd, 1, a, b, c, d);
	bee_probe_line("vector-state", PROBE_OK,
		       "XCR0 0x%llx, XSAVEC %s, XINUSE %s 0x%llx", read_xcr(0),
		       a & 2 ? "yes" : "no", a & 4 ? "yes" : "no",
		       a & 4 ? read_xcr(1) : 0ull);
}

static void probe_timers(void)
{
	u32 word = 0, expect = 0;
	s64 t0, t1, t2;

	t0 = bee_clock(ABI_CLOCK_MONOTONIC);
	Sleep(1);
	t1 = bee_clock(ABI_CLOCK_MONOTONIC);
	WaitOnAddress(&word, &expect, sizeof(word), 1);
	t2 = bee_clock(ABI_CLOCK_MONOTONIC);
	bee_probe_line("timer-resolution", PROBE_OK,
		       "Sleep(1) took %lld us, WaitOnAddress of 1 ms %lld us",
		       (t1 - t0) / 1000, (t2 - t1) / 1000);
}

static void wait_on_address(void)
{
	u32 word = 1, expect = 0;
	BOOL differs = WaitOnAddress(&word, &expect, sizeof(word), 1000);

	expect = 1;
	bee_probe_line("wait-on-address",
		       differs && !WaitOnAddress(&word, &expect, 4, 1) &&
				       GetLastError() == ERROR_TIMEOUT
			       ? PROBE_OK
			       : PROBE_BAD,
		       "returns at once if the value differs, times out if it "
		       "is equal");
}

void bee_probe_cpu(void)
{
	vector_state();
	fs_base();
	exception_frame();
	probe_timers();
	wait_on_address();
}
