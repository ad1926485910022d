/* SPDX-License-Identifier: MIT */
/* Timers that send signals. */
#ifndef ABI_STATE_ALARMS_H
#define ABI_STATE_ALARMS_H

#include <skep/types.h>
#include "lock.h"

#define ABI_ALARMS 32 /* timer_create */

struct abi_alarm {
	u32 used;
	u32 clock;	   /* of the guest's clock numbers */
	u32 notify, signo; /* SIGEV_* */
	u32 tid;	   /* SIGEV_THREAD_ID */
	u32 overrun;
	u64 value;    /* sigev_value */
	u64 deadline; /* CLOCK_MONOTONIC, or ABI_FOREVER */
	u64 interval;
};

struct abi_alarms {
	struct abi_lock lock;  /* guards all here; outside of signals.lock */
	u32 said, said_cpu;    /* log lines that were written */
	struct abi_alarm real; /* ITIMER_REAL */
	struct abi_alarm alarm[ABI_ALARMS];
};

#endif
