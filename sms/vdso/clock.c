// SPDX-License-Identifier: MIT
/*
 * The vDSO that the C library finds at AT_SYSINFO_EHDR (vdso(7)): clocks that
 * are read without a system call. It runs in ring 3 at AT_VDSO, with Linux's
 * clock page below it. For other clocks it makes a system call.
 */
#include "sms/clock.h"
#include "sms/kernel/layout.h"

#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
#define CLOCK_MONOTONIC_RAW 4
#define CLOCK_REALTIME_COARSE 5
#define CLOCK_MONOTONIC_COARSE 6
#define CLOCK_BOOTTIME 7

#define NR_GETTIMEOFDAY 96
#define NR_CLOCK_GETTIME 228
#define SECOND 1000000000ull

struct time_pair {
	s64 seconds, part;
};

int __vdso_clock_gettime(s32 id, struct time_pair *to);
int __vdso_gettimeofday(struct time_pair *to, void *zone);
s64 __vdso_time(s64 *to);

static s64 system_call(u64 number, u64 a, u64 b)
{
	s64 result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b)
			 : "rcx", "r11", "memory");
	return result;
}

static u64 now_ns(int realtime)
{
	return sms_clock_read((void *)AT_CLOCK, realtime);
}

int __vdso_clock_gettime(s32 id, struct time_pair *to)
{
	u64 ns;

	switch (id) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		ns = now_ns(1);
		break;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		ns = now_ns(0);
		break;
	default:
		return (int)system_call(NR_CLOCK_GETTIME, (u64)id, (u64)to);
	}
	*to = (struct time_pair){(s64)(ns / SECOND), (s64)(ns % SECOND)};
	return 0;
}

int __vdso_gettimeofday(struct time_pair *to, void *zone)
{
	u64 ns = now_ns(1);

	if (zone)
		return (int)system_call(NR_GETTIMEOFDAY, (u64)to, (u64)zone);
	if (to)
		*to = (struct time_pair){(s64)(ns / SECOND),
					 (s64)(ns % SECOND / 1000)};
	return 0;
}

s64 __vdso_time(s64 *to)
{
	s64 seconds = (s64)(now_ns(1) / SECOND);

	if (to)
		*to = seconds;
	return seconds;
}
