/* SPDX-License-Identifier: MIT */
/*
 * Timers of CPU time: ITIMER_VIRTUAL, ITIMER_PROF, timer_create on the two
 * clocks of CPU time, and RLIMIT_CPU. The host has no clock that wakes for
 * them, so abi looks when all that may run could have used up the rest.
 * alarms.lock guards what stands in the alarms.
 */
#ifndef ABI_CPU_TIMER_H
#define ABI_CPU_TIMER_H

#include <skep/types.h>

struct abi_alarm;
struct abi_proc;

/* ns that were used on the clock of `a`; a thread that ended uses no more. */
u64 abi_cpu_used(struct abi_proc *p, const struct abi_alarm *a);
/* On CLOCK_MONOTONIC: when `a` may be due, if `used` is so much at `now`. */
u64 abi_cpu_check(struct abi_proc *p, const struct abi_alarm *a, u64 used,
		  u64 now);
/* A timer of the process begins: earlier time counts for no thread. */
void abi_cpu_begin(struct abi_proc *p);
/*
 * The tid of the thread that a signal about `ns` of CPU time should reach: one
 * that ran since the last signal and does not block it, in proportion to the
 * time it used. 0: any.
 */
u32 abi_cpu_runner(struct abi_proc *p, u32 signo, u64 ns);

/* Looks at RLIMIT_CPU if it is time; when to look next. No lock is held. */
u64 abi_cpu_limit_check(struct abi_proc *p, u64 now);
/* The limit, or the process, is new. */
void abi_cpu_limit_arm(struct abi_proc *p);

#endif
