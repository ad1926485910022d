/* SPDX-License-Identifier: MIT */
/*
 * Timers that send signals: alarm, ITIMER_REAL and timer_create. Deadlines
 * are data; the substrate has the one thread that waits for the earliest and
 * calls abi_timer_fire. alarms.lock guards them all; signals.lock nests in it.
 *
 * An interval timer whose thread is late sends one signal and counts the rest
 * as overrun, as Linux does.
 */
#include "time.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/uapi/time.h"

#define ITIMER_REAL 0
#define ITIMER_PROF 2
#define SIGEV_SIGNAL 0u
#define SIGEV_NONE 1u
#define SIGEV_THREAD_ID 4u
#define TIMER_ABSTIME 1

struct itimerval {
	struct abi_timeval interval, value;
};

struct sigevent {
	u64 value;
	s32 signo;
	u32 notify, tid, pad[11];
};
SKEP_ASSERT_SIZE(struct sigevent, 64);

static u64 monotonic_ns(struct abi_proc *p)
{
	return (u64)p->host->clock(ABI_CLOCK_MONOTONIC);
}

static struct abi_alarm *alarm_at(struct abi_proc *p, u32 i)
{
	return i < ABI_ALARMS ? &p->alarms.alarm[i] : &p->alarms.real;
}

static u64 earliest_deadline(struct abi_proc *p)
{
	u64 least = ABI_FOREVER;
	u32 i;

	for (i = 0; i <= ABI_ALARMS; i++)
		if (alarm_at(p, i)->used && alarm_at(p, i)->deadline < least)
			least = alarm_at(p, i)->deadline;
	return least;
}

static int timers_supported(struct abi_proc *p)
{
	if (p->host->timer_arm)
		return 1;
	if (!__atomic_exchange_n(&p->alarms.said, 1, __ATOMIC_RELAXED))
		p->host->log("timers that send signals are not supported on "
			     "this host (alarm, setitimer, timer_create); use "
			     "timerfd or a thread that sleeps");
	return 0;
}

/* Firing
 * ----------------------------------------------------------------------- */

static void send_alarm(struct abi_proc *p, const struct abi_alarm *a, s32 id)
{
	struct abi_siginfo info = {(s32)a->signo, 0, ABI_SI_TIMER, 0, {{0}}};

	if (a->notify == SIGEV_NONE)
		return;
	if (id == ABI_ALARMS) {
		info.code = ABI_SI_KERNEL;
	} else {
		info.timer.id = id;
		info.timer.overrun = (s32)a->overrun;
		info.timer.value = a->value;
	}
	abi_signal_send(p, 0, a->notify & SIGEV_THREAD_ID ? a->tid : 0, &info);
}

/* Moves an alarm that is due on to its next deadline. */
static void advance_alarm(struct abi_alarm *a, u64 now)
{
	u64 missed;

	a->overrun = 0;
	if (!a->interval) {
		a->deadline = ABI_FOREVER;
		return;
	}
	missed = (now - a->deadline) / a->interval;
	a->overrun = missed > 0x7fffffff ? 0x7fffffff : (u32)missed;
	a->deadline += missed * a->interval;
	if (a->interval >= ABI_FOREVER - a->deadline)
		a->deadline = ABI_FOREVER;
	else
		a->deadline += a->interval;
}

u64 abi_timer_fire(struct abi_proc *p, u64 now)
{
	struct abi_alarm *a;
	u64 next;
	u32 i;

	abi_lock(p, &p->alarms.lock);
	for (i = 0; i <= ABI_ALARMS; i++) {
		a = alarm_at(p, i);
		if (!a->used || a->deadline > now || a->deadline == ABI_FOREVER)
			continue;
		advance_alarm(a, now);
		send_alarm(p, a, (s32)i);
	}
	next = earliest_deadline(p);
	abi_unlock(p, &p->alarms.lock);
	return next;
}

/* Setting
 * ------------------------------------------------------------------------ */

static u64 time_left(const struct abi_alarm *a, u64 now)
{
	if (!a->used || a->deadline == ABI_FOREVER)
		return 0;
	/* Due but not fired yet still counts as running. */
	return a->deadline > now ? a->deadline - now : 1;
}

/* Arms `a`; old values out. alarms.lock is not held. */
static void arm_alarm(struct abi_proc *p, struct abi_alarm *a, u64 deadline,
		      u64 interval, u64 *old_left, u64 *old_interval)
{
	u64 before, after;

	abi_lock(p, &p->alarms.lock);
	before = earliest_deadline(p);
	*old_left = time_left(a, monotonic_ns(p));
	*old_interval = a->used ? a->interval : 0;
	if (a == &p->alarms.real) {
		a->used = 1;
		a->signo = ABI_SIGALRM;
	}
	a->deadline = deadline;
	a->interval = interval;
	a->overrun = 0;
	after = earliest_deadline(p);
	/* Under the lock, or an older deadline could be set last. */
	if (after != before)
		p->host->timer_arm(after);
	abi_unlock(p, &p->alarms.lock);
}

static u64 deadline_after(struct abi_proc *p, u64 ns)
{
	u64 now = monotonic_ns(p);

	return ns && ns < ABI_FOREVER - now ? now + ns : ABI_FOREVER;
}

s64 abi_sys_alarm(struct abi_call *c)
{
	u64 ns = (u32)c->a[0] * ABI_NS, old, interval;

	if (!timers_supported(c->p))
		return -LINUX_ENOSYS;
	arm_alarm(c->p, &c->p->alarms.real, deadline_after(c->p, ns), 0, &old,
		  &interval);
	return (s64)((old + ABI_NS / 2) / ABI_NS ? (old + ABI_NS / 2) / ABI_NS
						 : old != 0);
}

static s64 timeval_ns(const struct abi_timeval *tv, u64 *ns)
{
	if (tv->sec < 0 || tv->usec < 0 || tv->usec >= 1000000)
		return -LINUX_EINVAL;
	if ((u64)tv->sec >= ABI_FOREVER / ABI_NS)
		*ns = ABI_FOREVER;
	else
		*ns = (u64)tv->sec * ABI_NS + (u64)tv->usec * 1000;
	return 0;
}

static struct abi_timeval ns_timeval(u64 ns)
{
	return (struct abi_timeval){(s64)(ns / ABI_NS),
				    (s64)(ns % ABI_NS / 1000)};
}

static s64 itimerval_put(struct abi_call *c, u64 gaddr, u64 value, u64 interval)
{
	struct itimerval it = {ns_timeval(interval), ns_timeval(value)};

	return gaddr ? ABI_PUT(c->p, gaddr, &it) : 0;
}

/* Only ITIMER_REAL: the host does not report when CPU time has passed. */
static s64 which_check(struct abi_call *c)
{
	if ((u32)c->a[0] > ITIMER_PROF)
		return -LINUX_EINVAL;
	if ((u32)c->a[0] == ITIMER_REAL)
		return timers_supported(c->p) ? 0 : -LINUX_ENOSYS;
	if (!__atomic_exchange_n(&c->p->alarms.said_cpu, 1, __ATOMIC_RELAXED))
		c->p->host->log(
			"setitimer: only ITIMER_REAL is supported; CPU time "
			"timers (profiling) are not");
	return -LINUX_ENOSYS;
}

s64 abi_sys_setitimer(struct abi_call *c)
{
	struct itimerval it = {{0, 0}, {0, 0}};
	u64 value, interval;
	s64 rc = which_check(c);

	if (rc)
		return rc;
	if (c->a[1] && ABI_GET(c->p, &it, c->a[1]))
		return -LINUX_EFAULT;
	if (timeval_ns(&it.value, &value) ||
	    timeval_ns(&it.interval, &interval))
		return -LINUX_EINVAL;
	arm_alarm(c->p, &c->p->alarms.real, deadline_after(c->p, value),
		  interval, &value, &interval);
	return itimerval_put(c, c->a[2], value, interval);
}

s64 abi_sys_getitimer(struct abi_call *c)
{
	u64 value, interval;
	s64 rc = which_check(c);

	if (rc)
		return rc;
	abi_lock(c->p, &c->p->alarms.lock);
	value = time_left(&c->p->alarms.real, monotonic_ns(c->p));
	interval = c->p->alarms.real.interval;
	abi_unlock(c->p, &c->p->alarms.lock);
	return c->a[1] ? itimerval_put(c, c->a[1], value, interval)
		       : -LINUX_EFAULT;
}

/* timer_create
 * -------------------------------------------------------------------- */

static s64 event_check(struct abi_call *c, const struct sigevent *e)
{
	if (e->notify == SIGEV_NONE)
		return 0;
	if (e->notify != SIGEV_SIGNAL && e->notify != SIGEV_THREAD_ID)
		return -LINUX_EINVAL;
	if (e->signo < 1 || e->signo > ABI_SIGNALS)
		return -LINUX_EINVAL;
	if (e->notify == SIGEV_THREAD_ID && !abi_thread_find(c->p, e->tid))
		return -LINUX_EINVAL;
	return 0;
}

static s64 clock_check(u64 clock)
{
	switch ((s32)clock) {
	case ABI_CLOCK_ID_REALTIME:
	case ABI_CLOCK_ID_MONOTONIC:
	case ABI_CLOCK_ID_BOOTTIME:
		return 0;
	case ABI_CLOCK_ID_PROCESS:
	case ABI_CLOCK_ID_THREAD:
		return -LINUX_EOPNOTSUPP; /* as for setitimer */
	}
	return -LINUX_EINVAL;
}

static s64 alarm_new(struct abi_proc *p, const struct sigevent *e, u32 clock)
{
	struct abi_alarm *a;
	s64 id = -LINUX_EAGAIN;
	u32 i;

	abi_lock(p, &p->alarms.lock);
	for (i = 0; i < ABI_ALARMS && id < 0; i++) {
		a = &p->alarms.alarm[i];
		if (a->used)
			continue;
		id = i;
		*a = (struct abi_alarm){1,	clock, e->notify, (u32)e->signo,
					e->tid, 0,     e->value,  ABI_FOREVER,
					0};
	}
	abi_unlock(p, &p->alarms.lock);
	return id;
}

s64 abi_sys_timer_create(struct abi_call *c)
{
	struct sigevent e;
	s64 rc = clock_check(c->a[0]), id;
	s32 out;

	if (rc || !timers_supported(c->p))
		return rc ? rc : -LINUX_ENOSYS;
	abi_memset(&e, 0, sizeof(e));
	e.signo = ABI_SIGALRM;
	if (c->a[1] && ABI_GET(c->p, &e, c->a[1]))
		return -LINUX_EFAULT;
	rc = event_check(c, &e);
	if (!rc)
		rc = abi_user_check(c->p, c->a[2], 4, ABI_PROT_WRITE);
	if (rc)
		return rc;
	id = alarm_new(c->p, &e, (u32)c->a[0]);
	if (id < 0)
		return id;
	out = (s32)id;
	if (!c->a[1])
		c->p->alarms.alarm[id].value = (u64)id;
	return ABI_PUT(c->p, c->a[2], &out);
}

static struct abi_alarm *alarm_get(struct abi_call *c)
{
	u32 id = (u32)c->a[0];

	if (id >= ABI_ALARMS || !c->p->alarms.alarm[id].used)
		return 0;
	return &c->p->alarms.alarm[id];
}

static s64 spec_put(struct abi_call *c, u64 gaddr, u64 value, u64 interval)
{
	struct abi_itimerspec spec = {
		{(s64)(interval / ABI_NS), (s64)(interval % ABI_NS)},
		{(s64)(value / ABI_NS), (s64)(value % ABI_NS)},
	};

	return ABI_PUT(c->p, gaddr, &spec);
}

s64 abi_sys_timer_settime(struct abi_call *c)
{
	struct abi_alarm *a = alarm_get(c);
	u64 value, interval, deadline;
	s64 rc;

	if (!a || !c->a[2])
		return -LINUX_EINVAL;
	rc = abi_time_get(c->p, c->a[2], &interval);
	if (!rc)
		rc = abi_time_get(c->p, c->a[2] + 16, &value);
	if (rc)
		return rc;
	deadline = deadline_after(c->p, value);
	if (value && c->a[1] & TIMER_ABSTIME)
		deadline = a->clock == ABI_CLOCK_ID_REALTIME
				   ? abi_time_real(c->p, value)
				   : value;
	arm_alarm(c->p, a, deadline, interval, &value, &interval);
	return c->a[3] ? spec_put(c, c->a[3], value, interval) : 0;
}

s64 abi_sys_timer_gettime(struct abi_call *c)
{
	struct abi_alarm *a = alarm_get(c);
	u64 value, interval;

	if (!a)
		return -LINUX_EINVAL;
	abi_lock(c->p, &c->p->alarms.lock);
	value = time_left(a, monotonic_ns(c->p));
	interval = a->interval;
	abi_unlock(c->p, &c->p->alarms.lock);
	return spec_put(c, c->a[1], value, interval);
}

s64 abi_sys_timer_getoverrun(struct abi_call *c)
{
	struct abi_alarm *a = alarm_get(c);

	return a ? (s64)a->overrun : -LINUX_EINVAL;
}

s64 abi_sys_timer_delete(struct abi_call *c)
{
	struct abi_alarm *a = alarm_get(c);
	u64 value, interval;

	if (!a)
		return -LINUX_EINVAL;
	arm_alarm(c->p, a, ABI_FOREVER, 0, &value, &interval);
	abi_lock(c->p, &c->p->alarms.lock);
	a->used = 0;
	abi_unlock(c->p, &c->p->alarms.lock);
	return 0;
}
