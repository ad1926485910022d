/* SPDX-License-Identifier: MIT */
/* Clocks, random bytes and a description of the machine. Owns nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

s64 lin_clock_ahead;
u64 lin_cpu_before, lin_user_before, lin_system_before;

/* What a restored program's clock shows beyond the kernel's. */
static s64 clock_ahead(u32 clock)
{
	if (clock == ABI_CLOCK_MONOTONIC)
		return lin_clock_ahead;
	return clock == ABI_CLOCK_PROCESS ? (s64)lin_cpu_before : 0;
}

s64 lin_clock(u32 clock)
{
	static const clockid_t ids[] = {
		[ABI_CLOCK_REALTIME] = CLOCK_REALTIME,
		[ABI_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
		[ABI_CLOCK_PROCESS] = CLOCK_PROCESS_CPUTIME_ID,
		[ABI_CLOCK_THREAD] = CLOCK_THREAD_CPUTIME_ID,
	};
	struct timespec ts;

	if (clock >= sizeof(ids) / sizeof(ids[0]) ||
	    clock_gettime(ids[clock], &ts))
		return -EINVAL;
	return ts.tv_sec * 1000000000ll + ts.tv_nsec + clock_ahead(clock);
}

s64 lin_random(void *buf, u64 len)
{
	u64 done = 0;
	s64 n;

	while (done < len) {
		n = getrandom((u8 *)buf + done, len - done, 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (u64)n : 0;
	}
	return 0;
}

u32 lin_umask;

s64 lin_info(struct abi_host_info *info)
{
	struct sysinfo si;
	struct utsname un;
	cpu_set_t set;

	memset(info, 0, sizeof(*info));
	info->cpus = 1;
	if (!sched_getaffinity(0, sizeof(set), &set))
		info->cpus = (u32)CPU_COUNT(&set);
	info->pid = (u32)lin_family_guest(getpid());
	info->uid = getuid();
	info->gid = getgid();
	info->umask = lin_umask;
	if (sysinfo(&si) || uname(&un))
		return -errno;
	info->mem_total = (u64)si.totalram * si.mem_unit;
	info->mem_free = (u64)si.freeram * si.mem_unit;
	info->mem_limit =
		bee.options->memory ? bee.options->memory : info->mem_total;
	info->xsave_size = bee_xsave_size();
	info->xsave_mask = bee_xsave_mask();
	snprintf(info->node, sizeof(info->node), "%.64s", un.nodename);
	snprintf(info->machine, sizeof(info->machine), "bee %s on Linux %.40s",
		 SKEP_VERSION, un.release);
	return 0;
}

s64 lin_rusage(s64 *user_ns, s64 *system_ns)
{
	struct rusage ru;

	if (getrusage(RUSAGE_SELF, &ru))
		return -errno;
	*user_ns = ru.ru_utime.tv_sec * 1000000000ll +
		   ru.ru_utime.tv_usec * 1000ll + (s64)lin_user_before;
	*system_ns = ru.ru_stime.tv_sec * 1000000000ll +
		     ru.ru_stime.tv_usec * 1000ll + (s64)lin_system_before;
	return 0;
}
