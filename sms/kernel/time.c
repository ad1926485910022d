// SPDX-License-Identifier: MIT
/* Linux's time from the TSC. A proxy that overwrites the clock page harms only
 * its own program. */
#include "kernel.h"
#include "sms/clock.h"

static u64 ns_of(u64 tsc)
{
	u64 khz = sms_partition->tsc_khz ? sms_partition->tsc_khz : 1;

	return tsc / khz * 1000000 + tsc % khz * 1000000 / khz;
}

s64 sms_time_clock(u32 clock)
{
	struct core *core = sms_core();

	if (clock == ABI_CLOCK_THREAD)
		return (s64)ns_of(sms_task_at(core->thread)->used + sms_tsc() -
				  core->thread_tsc);
	if (clock == ABI_CLOCK_PROCESS) {
		s64 user, system;

		sms_time_rusage(&user, &system);
		return user;
	}
	if (clock > ABI_CLOCK_MONOTONIC)
		return -LINUX_EINVAL;
	return (s64)sms_clock_read((void *)(AT_MAIL + SKEP_MAIL_CLOCK),
				   clock == ABI_CLOCK_REALTIME);
}

/* A core's time counts as the program's from when its first thread ran. */
s64 sms_time_rusage(s64 *user_ns, s64 *system_ns)
{
	u64 sum = 0, now = sms_tsc();
	u32 i;

	for (i = 0; i < sms_partition->cores; i++)
		if (sms_core_at(i)->born_tsc)
			sum += now - sms_core_at(i)->born_tsc;
	*user_ns = (s64)ns_of(sum);
	*system_ns = 0;
	return 0;
}
