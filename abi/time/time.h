/* SPDX-License-Identifier: MIT */
/*
 * Guest time: conversions, and the timers that send signals. Times are ns in
 * u64; deadlines are on CLOCK_MONOTONIC; ABI_FOREVER means none.
 */
#ifndef ABI_TIME_H
#define ABI_TIME_H

#include <skep/types.h>

struct abi_proc;

#define ABI_NS 1000000000ull
#define ABI_CLOCK_ID_REALTIME 0
#define ABI_CLOCK_ID_MONOTONIC 1
#define ABI_CLOCK_ID_PROCESS 2
#define ABI_CLOCK_ID_THREAD 3
#define ABI_CLOCK_ID_MONOTONIC_RAW 4
#define ABI_CLOCK_ID_REALTIME_COARSE 5
#define ABI_CLOCK_ID_MONOTONIC_COARSE 6
#define ABI_CLOCK_ID_BOOTTIME 7
#define ABI_CLOCK_ID_REALTIME_ALARM 8
#define ABI_CLOCK_ID_BOOTTIME_ALARM 9
#define ABI_CLOCK_ID_TAI 11

/*
 * Of a clock of CPU time: the index of its thread, or -1: the process's.
 * -EINVAL: it is none, or of another process.
 */
struct abi_call;
s64 abi_time_cpu_clock(struct abi_call *c, s32 id);

/* A struct timespec of the guest. 0, -EFAULT, -EINVAL; huge is FOREVER. */
s64 abi_time_get(struct abi_proc *p, u64 gaddr, u64 *ns);
s64 abi_time_put(struct abi_proc *p, u64 gaddr, u64 ns);

/*
 * Converts a deadline on CLOCK_REALTIME to one on CLOCK_MONOTONIC. It does not
 * change when the clock is set later.
 */
u64 abi_time_real(struct abi_proc *p, u64 real_ns);

#endif
