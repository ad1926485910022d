// SPDX-License-Identifier: MIT
/*
 * Clocks. Owns the frequency of the performance counter, written once before
 * threads exist.
 */
#include "win.h"

#define NS 1000000000ull
#define EPOCH_1601 116444736000000000ll /* 1970, in 100 ns since 1601 */

static u64 frequency;

void bee_clock_init(void)
{
	LARGE_INTEGER f;

	QueryPerformanceFrequency(&f);
	frequency = (u64)f.QuadPart;
}

static s64 monotonic(void)
{
	LARGE_INTEGER c;

	QueryPerformanceCounter(&c);
	if (frequency == NS / 100)
		return c.QuadPart * 100;
	return (s64)((unsigned __int128)(u64)c.QuadPart * NS / frequency);
}

static s64 ticks(const FILETIME *t)
{
	return (s64)((u64)t->dwHighDateTime << 32 | t->dwLowDateTime);
}

s64 bee_win_ns(const FILETIME *t)
{
	return (ticks(t) - EPOCH_1601) * 100;
}

FILETIME bee_win_filetime(s64 ns)
{
	s64 t = ns / 100 + EPOCH_1601;
	FILETIME ft = {(DWORD)t, (DWORD)((u64)t >> 32)};

	return ft;
}

static s64 cpu_time(int thread, s64 *user, s64 *kernel)
{
	FILETIME made, left, k, u;
	BOOL ok;

	if (thread)
		ok = GetThreadTimes(GetCurrentThread(), &made, &left, &k, &u);
	else
		ok = GetProcessTimes(GetCurrentProcess(), &made, &left, &k, &u);
	if (!ok)
		return bee_win_last();
	*user = ticks(&u) * 100;
	*kernel = ticks(&k) * 100;
	return 0;
}

s64 bee_rusage(s64 *user_ns, s64 *system_ns)
{
	return cpu_time(0, user_ns, system_ns);
}

s64 bee_clock(u32 clock)
{
	FILETIME now;
	s64 user = 0, kernel = 0, err;

	switch (clock) {
	case ABI_CLOCK_REALTIME:
		GetSystemTimePreciseAsFileTime(&now);
		return bee_win_ns(&now);
	case ABI_CLOCK_MONOTONIC:
		return monotonic();
	case ABI_CLOCK_PROCESS:
	case ABI_CLOCK_THREAD:
		err = cpu_time(clock == ABI_CLOCK_THREAD, &user, &kernel);
		return err ? err : user + kernel;
	}
	return -ABI_EINVAL;
}

DWORD bee_clock_left(u64 deadline_ns)
{
	u64 now, ms;

	if (deadline_ns == ABI_FOREVER)
		return INFINITE;
	now = (u64)monotonic();
	if (deadline_ns <= now)
		return 0;
	ms = (deadline_ns - now + 999999) / 1000000;
	return ms < 0x7fffffff ? (DWORD)ms : 0x7fffffff;
}
