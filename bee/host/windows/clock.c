// SPDX-License-Identifier: MIT
/*
 * Clocks. QueryPerformanceCounter and its like are calls that cost hundreds of
 * nanoseconds under Wine, so the processor's counter replaces them (tsc.h) if
 * it is invariant: CPUID must report that, and a frequency of 10 MHz shows that
 * Windows uses it too. Owns the frequency, written once before threads exist,
 * and `tsc`; `lock` guards changes of it.
 *
 * Built for general registers only: quick_clock runs without the gate.
 */
#include "win.h"
#include "bee/core/core.h"
#include "tsc.h"
#include <cpuid.h>

#define NS 1000000000ull
#define EPOCH_1601 116444736000000000ll /* 1970, in 100 ns since 1601 */

#define TSC_FREQUENCY 10000000ull
#define LOOK_TICKS 10000 /* a sample may take so long: some microseconds */
#define LOOK_TRIES 200

static u64 frequency;
static SRWLOCK lock = SRWLOCK_INIT;
static struct tsc_clock tsc;

static s64 performance_ns(void)
{
	LARGE_INTEGER c;

	QueryPerformanceCounter(&c);
	if (frequency == NS / 100)
		return c.QuadPart * 100;
	return (s64)((unsigned __int128)(u64)c.QuadPart * NS / frequency);
}

static s64 filetime_ticks(const FILETIME *t)
{
	return (s64)((u64)t->dwHighDateTime << 32 | t->dwLowDateTime);
}

s64 bee_win_ns(const FILETIME *t)
{
	return (filetime_ticks(t) - EPOCH_1601) * 100;
}

FILETIME bee_win_filetime(s64 ns)
{
	s64 t = ns / 100 + EPOCH_1601;
	FILETIME ft = {(DWORD)t, (DWORD)((u64)t >> 32)};

	return ft;
}

s64 bee_clock_cpu(const FILETIME *time)
{
	return filetime_ticks(time) * 100;
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
	*user = bee_clock_cpu(&u);
	*kernel = bee_clock_cpu(&k);
	return 0;
}

s64 bee_rusage(s64 *user_ns, s64 *system_ns)
{
	return cpu_time(0, user_ns, system_ns);
}

static s64 system_ns(void)
{
	FILETIME now;

	GetSystemTimePreciseAsFileTime(&now);
	return bee_win_ns(&now);
}

/*
 * lfence: the counter is read after all earlier loads, so no thread gets a time
 * before one that another thread has passed to it.
 */
static u64 read_counter(void)
{
	u32 low, high;

	__asm__ volatile("lfence\n\trdtsc"
			 : "=a"(low), "=d"(high)
			 :
			 : "memory");
	return (u64)high << 32 | low;
}

/* 0: each attempt to read the counter and Windows' clocks was interrupted. */
static int look_take(struct tsc_look *look)
{
	u64 after;
	u32 i;

	for (i = 0; i < LOOK_TRIES; i++) {
		look->tsc = read_counter();
		look->ns[TSC_MONOTONIC] = performance_ns();
		look->ns[TSC_REAL] = system_ns();
		after = read_counter();
		if (after - look->tsc < LOOK_TICKS)
			return 1;
	}
	return 0;
}

static s64 plain_clock(u32 which)
{
	s64 now;

	if (which == TSC_REAL)
		return system_ns();
	now = performance_ns();
	return now < tsc.ns[TSC_MONOTONIC] ? tsc.ns[TSC_MONOTONIC] : now;
}

static s64 look_clock(u32 which)
{
	struct tsc_look look;
	s64 now;

	if (__atomic_load_n(&tsc.given_up, __ATOMIC_ACQUIRE))
		return plain_clock(which);
	AcquireSRWLockExclusive(&lock);
	now = tsc_now(&tsc, which, read_counter);
	if (now == TSC_ASK) {
		tsc_change(&tsc);
		tsc_adjust(&tsc, &look, look_take(&look));
		now = look.ns[which];
	}
	ReleaseSRWLockExclusive(&lock);
	return now;
}

/* Called instead of the gate. Negative: the caller must use the gate. */
static s64 quick_clock(u32 which)
{
	return tsc_now(&tsc, which, read_counter);
}

static int is_invariant(void)
{
	u32 a, b, c, d;

	return frequency == TSC_FREQUENCY &&
	       __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 0x100);
}

void bee_clock_init(void)
{
	struct tsc_look look;
	LARGE_INTEGER f;

	QueryPerformanceFrequency(&f);
	frequency = (u64)f.QuadPart;
	if (!is_invariant() || !look_take(&look)) {
		tsc.given_up = 1;
		return;
	}
	tsc_begin(&tsc, &look);
	bee_clock_quick = quick_clock;
}

_Static_assert((int)ABI_CLOCK_REALTIME == (int)TSC_REAL &&
		       (int)ABI_CLOCK_MONOTONIC == (int)TSC_MONOTONIC,
	       "the clocks have abi's numbers");

s64 bee_clock(u32 clock)
{
	s64 user = 0, kernel = 0, err;

	switch (clock) {
	case ABI_CLOCK_REALTIME:
	case ABI_CLOCK_MONOTONIC:
		err = quick_clock(clock);
		return err == TSC_ASK ? look_clock(clock) : err;
	case ABI_CLOCK_PROCESS:
	case ABI_CLOCK_THREAD:
		err = cpu_time(clock == ABI_CLOCK_THREAD, &user, &kernel);
		return err ? err : user + kernel;
	}
	return -LINUX_EINVAL;
}

DWORD bee_clock_left(u64 deadline_ns)
{
	u64 now, ms;

	if (deadline_ns == ABI_FOREVER)
		return INFINITE;
	now = (u64)bee_clock(ABI_CLOCK_MONOTONIC);
	if (deadline_ns <= now)
		return 0;
	ms = (deadline_ns - now + 999999) / 1000000;
	return ms < 0x7fffffff ? (DWORD)ms : 0x7fffffff;
}
