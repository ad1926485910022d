/* SPDX-License-Identifier: MIT */
/* Layouts of x86-64 Linux for times: time(7), getitimer(2), timer_settime(2).
 */
#ifndef ABI_LINUX_TIME_H
#define ABI_LINUX_TIME_H

#include <skep/types.h>

struct abi_timespec {
	s64 sec, nsec;
};

struct abi_timeval {
	s64 sec, usec;
};

struct abi_itimerspec {
	struct abi_timespec interval, value;
};

#endif
