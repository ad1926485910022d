/* SPDX-License-Identifier: MIT */
/* Timers that send signals. */
#ifndef ABI_STATE_ALARMS_H
#define ABI_STATE_ALARMS_H

#include <skep/types.h>
#include "abi/include/thread_state.h"
#include "lock.h"

#define ABI_ALARMS 32 /* timer_create */
#define ABI_ITIMERS 3

/* Whose time an alarm counts. */
enum abi_alarm_source {
	ABI_ALARM_WALL,	   /* deadline is on CLOCK_MONOTONIC */
	ABI_ALARM_PROCESS, /* CPU time, in ns: of the process */
	ABI_ALARM_USER,	   /* of the process in user mode */
	ABI_ALARM_THREAD,  /* of one thread */
};

struct abi_alarm {
	u32 used;
	u32 clock;	   /* of the guest's clock numbers */
	u32 notify, signo; /* SIGEV_* */
	u32 tid;	   /* SIGEV_THREAD_ID */
	u32 overrun;
	u64 value;    /* sigev_value */
	u64 deadline; /* on the clock of `source`, or ABI_FOREVER */
	u64 interval;
	u32 source;	  /* enum abi_alarm_source */
	u32 thread, uses; /* THREAD: its index, and which use of it */
	u64 check; /* not WALL: when to look whether it is due, as deadline */
};

/* What signals about CPU time have charged to a thread. */
struct abi_cpu_share {
	u32 uses; /* of the thread's index, and 1 */
	u64 seen; /* its CPU time at the last look */
	u64 charged;
};

struct abi_alarms {
	struct abi_lock lock; /* guards all here; outside of signals.lock */
	u32 said, said_cpu;   /* log lines that were written */
	u64 limit_check;      /* when to look at RLIMIT_CPU, as deadline */
	struct abi_alarm itimer[ABI_ITIMERS]; /* ITIMER_REAL, _VIRTUAL, _PROF */
	struct abi_cpu_share share[ABI_THREADS_MAX];
	struct abi_alarm alarm[ABI_ALARMS];
};

#endif
