/* SPDX-License-Identifier: MIT */
/*
 * Reading clocks and sleeping. Owns nothing: clocks are the host's. The coarse
 * and raw clocks, BOOTTIME and TAI are the same as the plain ones: the host has
 * no leap second table and does not report suspension.
 */
#include "time.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"
#include "abi/uapi/time.h"

#define TIMER_ABSTIME 1
/* CPU clocks of a thread or process in a clock id, as pthread builds them. */
#define CPU_PER_THREAD 4
#define CPU_KIND 3
#define CPU_SCHED 2

s64 abi_time_get(struct abi_proc *p, u64 gaddr, u64 *ns)
{
	struct abi_timespec ts;

	if (ABI_GET(p, &ts, gaddr))
		return -LINUX_EFAULT;
	if (ts.sec < 0 || ts.nsec < 0 || ts.nsec >= (s64)ABI_NS)
		return -LINUX_EINVAL;
	if ((u64)ts.sec >= ABI_FOREVER / ABI_NS)
		*ns = ABI_FOREVER;
	else
		*ns = (u64)ts.sec * ABI_NS + (u64)ts.nsec;
	return 0;
}

s64 abi_time_put(struct abi_proc *p, u64 gaddr, u64 ns)
{
	struct abi_timespec ts = {(s64)(ns / ABI_NS), (s64)(ns % ABI_NS)};

	return ABI_PUT(p, gaddr, &ts);
}

static u64 clock_ns(struct abi_proc *p, u32 clock)
{
	return (u64)p->host->clock(clock);
}

u64 abi_time_real(struct abi_proc *p, u64 real_ns)
{
	u64 real = clock_ns(p, ABI_CLOCK_REALTIME);
	u64 mono = clock_ns(p, ABI_CLOCK_MONOTONIC);

	if (real_ns <= real)
		return mono;
	if (real_ns == ABI_FOREVER || real_ns - real >= ABI_FOREVER - mono)
		return ABI_FOREVER;
	return mono + (real_ns - real);
}

/* The host's clock behind a negative id: only of ourselves. */
s64 abi_time_cpu_clock(struct abi_call *c, s32 id)
{
	u32 who = ~(u32)(id >> 3);
	struct abi_thread *t = c->t;

	if (id == ABI_CLOCK_ID_PROCESS)
		return -1;
	if (id == ABI_CLOCK_ID_THREAD)
		return t->index;
	if (id >= 0 || (id & CPU_KIND) != CPU_SCHED)
		return -LINUX_EINVAL;
	if (!(id & CPU_PER_THREAD))
		return !who || who == c->p->info.pid ? -1 : -LINUX_EINVAL;
	if (who)
		t = abi_thread_find(c->p, who);
	return t ? (s64)t->index : -LINUX_EINVAL;
}

/* Of the caller only: the host reads no clock of another thread here. */
static s64 cpu_clock(struct abi_call *c, s32 id)
{
	s64 thread = abi_time_cpu_clock(c, id);

	if (thread == -1)
		return ABI_CLOCK_PROCESS;
	if (thread >= 0 && thread != (s64)c->t->index)
		return abi_refuse(c->p, ABI_REFUSE_CPU_CLOCK, -LINUX_EINVAL);
	return thread < 0 ? thread : ABI_CLOCK_THREAD;
}

/* The host's clock for a guest's clock id, or -EINVAL. */
static s64 clock_of(struct abi_call *c, u64 id)
{
	if ((s32)id < 0)
		return cpu_clock(c, (s32)id);
	switch ((u32)id) {
	case ABI_CLOCK_ID_REALTIME:
	case ABI_CLOCK_ID_REALTIME_COARSE:
	case ABI_CLOCK_ID_REALTIME_ALARM:
	case ABI_CLOCK_ID_TAI:
		return ABI_CLOCK_REALTIME;
	case ABI_CLOCK_ID_MONOTONIC:
	case ABI_CLOCK_ID_MONOTONIC_RAW:
	case ABI_CLOCK_ID_MONOTONIC_COARSE:
	case ABI_CLOCK_ID_BOOTTIME:
	case ABI_CLOCK_ID_BOOTTIME_ALARM:
		return ABI_CLOCK_MONOTONIC;
	case ABI_CLOCK_ID_PROCESS:
		return ABI_CLOCK_PROCESS;
	case ABI_CLOCK_ID_THREAD:
		return ABI_CLOCK_THREAD;
	}
	return -LINUX_EINVAL;
}

s64 abi_sys_clock_gettime(struct abi_call *c)
{
	s64 clock = clock_of(c, c->a[0]);

	if (clock < 0)
		return clock;
	return abi_time_put(c->p, c->a[1], clock_ns(c->p, (u32)clock));
}

s64 abi_sys_clock_getres(struct abi_call *c)
{
	s64 clock = clock_of(c, c->a[0]);

	if (clock < 0 || !c->a[1])
		return clock < 0 ? clock : 0;
	return abi_time_put(c->p, c->a[1], 1);
}

s64 abi_sys_clock_settime(struct abi_call *c)
{
	u64 ns;
	s64 rc;

	if ((u32)c->a[0] != ABI_CLOCK_ID_REALTIME)
		return -LINUX_EINVAL;
	rc = abi_time_get(c->p, c->a[1], &ns);
	return rc ? rc : -LINUX_EPERM;
}

s64 abi_sys_gettimeofday(struct abi_call *c)
{
	u64 ns = clock_ns(c->p, ABI_CLOCK_REALTIME), zone = 0;
	struct abi_timeval tv = {(s64)(ns / ABI_NS), (s64)(ns % ABI_NS / 1000)};

	if (c->a[0] && ABI_PUT(c->p, c->a[0], &tv))
		return -LINUX_EFAULT;
	if (c->a[1] && ABI_PUT(c->p, c->a[1], &zone))
		return -LINUX_EFAULT;
	return 0;
}

s64 abi_sys_time(struct abi_call *c)
{
	s64 sec = (s64)(clock_ns(c->p, ABI_CLOCK_REALTIME) / ABI_NS);

	if (c->a[0] && ABI_PUT(c->p, c->a[0], &sec))
		return -LINUX_EFAULT;
	return sec;
}

/* Sleeping -------------------------------------------------------------------
 */

/* 0 when the deadline has passed, -EINTR if a signal arrived before. */
static s64 sleep_until(struct abi_call *c, u64 deadline)
{
	s64 rc;

	do {
		rc = abi_thread_park(c->p, c->t, deadline, 1);
	} while (!rc);
	return rc == -LINUX_ETIMEDOUT ? 0 : rc;
}

static s64 sleep_for(struct abi_call *c, u64 ns, u64 rem)
{
	u64 deadline = abi_thread_deadline(c, ns), mono;

	if (!sleep_until(c, deadline))
		return 0;
	mono = clock_ns(c->p, ABI_CLOCK_MONOTONIC);
	if (mono >= deadline)
		return 0;
	if (rem && abi_time_put(c->p, rem, deadline - mono))
		return -LINUX_EFAULT;
	return -ABI_ERESTARTBLOCK;
}

s64 abi_sys_nanosleep(struct abi_call *c)
{
	u64 ns;
	s64 rc = abi_time_get(c->p, c->a[0], &ns);

	return rc ? rc : sleep_for(c, ns, c->a[1]);
}

/* Whether clock_nanosleep(2) supports this clock. */
static s64 sleep_clock(u64 id)
{
	switch ((s32)id) {
	case ABI_CLOCK_ID_REALTIME:
	case ABI_CLOCK_ID_TAI:
		return ABI_CLOCK_REALTIME;
	case ABI_CLOCK_ID_MONOTONIC:
	case ABI_CLOCK_ID_BOOTTIME:
		return ABI_CLOCK_MONOTONIC;
	case ABI_CLOCK_ID_PROCESS:
	case ABI_CLOCK_ID_THREAD:
	case ABI_CLOCK_ID_MONOTONIC_RAW:
	case ABI_CLOCK_ID_REALTIME_COARSE:
	case ABI_CLOCK_ID_MONOTONIC_COARSE:
	case ABI_CLOCK_ID_REALTIME_ALARM:
	case ABI_CLOCK_ID_BOOTTIME_ALARM:
		return -LINUX_EOPNOTSUPP;
	}
	return -LINUX_EINVAL;
}

s64 abi_sys_clock_nanosleep(struct abi_call *c)
{
	s64 clock = sleep_clock(c->a[0]), rc;
	u64 ns;

	if (clock < 0 && (s32)c->a[0] == ABI_CLOCK_ID_PROCESS)
		return abi_refuse(c->p, ABI_REFUSE_CPU_CLOCK, clock);
	if (clock < 0)
		return clock;
	rc = abi_time_get(c->p, c->a[2], &ns);
	if (rc)
		return rc;
	if (!(c->a[1] & TIMER_ABSTIME))
		return sleep_for(c, ns, c->a[3]);
	if (clock == ABI_CLOCK_REALTIME)
		ns = abi_time_real(c->p, ns);
	return sleep_until(c, ns) ? -ABI_ERESTARTNOHAND : 0;
}
