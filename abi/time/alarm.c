/* SPDX-License-Identifier: MIT */
/*
 * Timers that send signals: alarm, setitimer and timer_create. Deadlines
 * are data; the substrate has the one thread that waits for the earliest and
 * calls abi_timer_fire. alarms.lock guards them all; signals.lock nests in it.
 * cpu_timer.c says when to look at timers of CPU time.
 *
 * If its thread is late, an interval timer sends one signal and counts the rest
 * as overrun, as on Linux.
 */
#include "cpu_timer.h"
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
#define ITIMER_VIRTUAL 1
#define ITIMER_PROF 2
#define ALL_ALARMS (ABI_ALARMS + ABI_ITIMERS)
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
	return i < ABI_ALARMS ? &p->alarms.alarm[i]
			      : &p->alarms.itimer[i - ABI_ALARMS];
}

/* When to look at it, on CLOCK_MONOTONIC. */
static u64 alarm_check(const struct abi_alarm *a)
{
	return a->source == ABI_ALARM_WALL ? a->deadline : a->check;
}

/* The clock of its deadline. */
static u64 alarm_now(struct abi_proc *p, const struct abi_alarm *a)
{
	return a->source == ABI_ALARM_WALL ? monotonic_ns(p)
					   : abi_cpu_used(p, a);
}

static u64 earliest_deadline(struct abi_proc *p)
{
	u64 least = p->alarms.limit_check ? p->alarms.limit_check : ABI_FOREVER;
	u32 i;

	for (i = 0; i < ALL_ALARMS; i++)
		if (alarm_at(p, i)->used && alarm_check(alarm_at(p, i)) < least)
			least = alarm_check(alarm_at(p, i));
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

/* What its thread used counts for profiles, so a thread that ran gets it. */
static void send_alarm(struct abi_proc *p, const struct abi_alarm *a, s32 id)
{
	struct abi_siginfo info = {(s32)a->signo, 0, ABI_SI_TIMER, 0, {{0}}};
	u32 tid = 0;

	abi_assert_locked(&p->alarms.lock);
	if (a->notify == SIGEV_NONE)
		return;
	if (id >= ABI_ALARMS) {
		info.code = ABI_SI_KERNEL;
	} else {
		info.timer.id = id;
		info.timer.overrun = (s32)a->overrun;
		info.timer.value = a->value;
	}
	if (a->notify & SIGEV_THREAD_ID)
		tid = a->tid;
	else if (a->source != ABI_ALARM_WALL)
		tid = abi_cpu_runner(p, a->signo, a->interval);
	abi_signal_send(p, 0, tid, &info);
}

/* Advances an alarm that is due to its next deadline. */
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

/* At `now` on CLOCK_MONOTONIC it is time to look at it. */
static void look_at_alarm(struct abi_proc *p, u32 i, u64 now)
{
	struct abi_alarm *a = alarm_at(p, i);
	u64 clock = now;

	abi_assert_locked(&p->alarms.lock);
	if (a->source != ABI_ALARM_WALL)
		clock = abi_cpu_used(p, a);
	if (clock >= a->deadline) {
		advance_alarm(a, clock);
		send_alarm(p, a, (s32)i);
	}
	if (a->source != ABI_ALARM_WALL)
		a->check = abi_cpu_check(p, a, clock, now);
}

u64 abi_timer_fire(struct abi_proc *p, u64 now)
{
	struct abi_alarm *a;
	u64 next;
	u32 i;

	abi_cpu_limit_check(p, now);
	abi_lock(p, &p->alarms.lock);
	for (i = 0; i < ALL_ALARMS; i++) {
		a = alarm_at(p, i);
		if (a->used && alarm_check(a) <= now &&
		    a->deadline != ABI_FOREVER)
			look_at_alarm(p, i, now);
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
	/* a timer that is due but has not fired still counts as running */
	return a->deadline > now ? a->deadline - now : 1;
}

static u64 deadline_after(u64 now, u64 ns)
{
	return ns && ns < ABI_FOREVER - now ? now + ns : ABI_FOREVER;
}

struct setting {
	u64 value, interval;	    /* ns; 0: not armed */
	u32 absolute;		    /* value is a time of the alarm's clock */
	u64 old_left, old_interval; /* out */
};

/* Arms `a`. alarms.lock is not held. */
static void arm_alarm(struct abi_proc *p, struct abi_alarm *a,
		      struct setting *to)
{
	u64 before, after, clock;

	abi_lock(p, &p->alarms.lock);
	before = earliest_deadline(p);
	clock = alarm_now(p, a);
	to->old_left = time_left(a, clock);
	to->old_interval = a->used ? a->interval : 0;
	a->deadline = to->absolute && to->value
			      ? to->value
			      : deadline_after(clock, to->value);
	a->interval = to->interval;
	a->overrun = 0;
	if (a->source != ABI_ALARM_WALL)
		a->check = abi_cpu_check(p, a, clock, monotonic_ns(p));
	if (a->source != ABI_ALARM_WALL && to->value)
		abi_cpu_begin(p);
	after = earliest_deadline(p);
	/* under the lock, because otherwise an older deadline could be set
	 * last */
	if (after != before)
		p->host->timer_arm(after);
	abi_unlock(p, &p->alarms.lock);
}

/* setitimer's timer, with the signal that it always has. */
static struct abi_alarm *itimer_get(struct abi_proc *p, u32 which)
{
	static const struct {
		u32 signo, source;
	} kinds[ABI_ITIMERS] = {
		[ITIMER_REAL] = {ABI_SIGALRM, ABI_ALARM_WALL},
		[ITIMER_VIRTUAL] = {ABI_SIGVTALRM, ABI_ALARM_USER},
		[ITIMER_PROF] = {ABI_SIGPROF, ABI_ALARM_PROCESS},
	};
	struct abi_alarm *a = &p->alarms.itimer[which];

	abi_lock(p, &p->alarms.lock);
	if (!a->used) {
		a->signo = kinds[which].signo;
		a->source = kinds[which].source;
		a->deadline = a->check = ABI_FOREVER;
		a->used = 1;
	}
	abi_unlock(p, &p->alarms.lock);
	return a;
}

s64 abi_sys_alarm(struct abi_call *c)
{
	struct setting to = {.value = (u32)c->a[0] * ABI_NS};
	u64 half = ABI_NS / 2;

	if (!timers_supported(c->p))
		return -LINUX_ENOSYS;
	arm_alarm(c->p, itimer_get(c->p, ITIMER_REAL), &to);
	return (s64)((to.old_left + half) / ABI_NS
			     ? (to.old_left + half) / ABI_NS
			     : to.old_left != 0);
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

static int cpu_timers_supported(struct abi_proc *p)
{
	if (!timers_supported(p))
		return 0;
	if (p->host->thread_clock)
		return 1;
	if (!__atomic_exchange_n(&p->alarms.said_cpu, 1, __ATOMIC_RELAXED))
		p->host->log("timers of CPU time (profiling) are not "
			     "supported on this host: setitimer has "
			     "ITIMER_REAL");
	return 0;
}

static s64 which_check(struct abi_call *c)
{
	if ((u32)c->a[0] > ITIMER_PROF)
		return -LINUX_EINVAL;
	if ((u32)c->a[0] == ITIMER_REAL)
		return timers_supported(c->p) ? 0 : -LINUX_ENOSYS;
	return cpu_timers_supported(c->p) ? 0 : -LINUX_ENOSYS;
}

s64 abi_sys_setitimer(struct abi_call *c)
{
	struct itimerval it = {{0, 0}, {0, 0}};
	struct setting to = {.absolute = 0};
	s64 rc = which_check(c);

	if (rc)
		return rc;
	if (c->a[1] && ABI_GET(c->p, &it, c->a[1]))
		return -LINUX_EFAULT;
	if (timeval_ns(&it.value, &to.value) ||
	    timeval_ns(&it.interval, &to.interval))
		return -LINUX_EINVAL;
	arm_alarm(c->p, itimer_get(c->p, (u32)c->a[0]), &to);
	return itimerval_put(c, c->a[2], to.old_left, to.old_interval);
}

s64 abi_sys_getitimer(struct abi_call *c)
{
	struct abi_alarm *a;
	u64 value, interval;
	s64 rc = which_check(c);

	if (rc)
		return rc;
	a = itimer_get(c->p, (u32)c->a[0]);
	abi_lock(c->p, &c->p->alarms.lock);
	value = time_left(a, alarm_now(c->p, a));
	interval = a->interval;
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

/* A clock of CPU time: the C library's names, or clock_getcpuclockid(3). */
static s64 cpu_source(struct abi_call *c, s32 id, struct abi_alarm *a)
{
	s64 thread = abi_time_cpu_clock(c, id);

	if (thread < -1)
		return thread;
	a->source = thread < 0 ? ABI_ALARM_PROCESS : ABI_ALARM_THREAD;
	if (thread >= 0) {
		a->thread = (u32)thread;
		a->uses = c->p->threads.thread[thread].uses;
	}
	return cpu_timers_supported(c->p) ? 0 : -LINUX_EOPNOTSUPP;
}

/* Fills the source of a timer of the caller's. */
static s64 clock_check(struct abi_call *c, struct abi_alarm *a)
{
	s32 id = (s32)c->a[0];

	a->clock = (u32)id;
	switch (id) {
	case ABI_CLOCK_ID_REALTIME:
	case ABI_CLOCK_ID_MONOTONIC:
	case ABI_CLOCK_ID_BOOTTIME:
		a->source = ABI_ALARM_WALL;
		return timers_supported(c->p) ? 0 : -LINUX_ENOSYS;
	}
	return cpu_source(c, id, a);
}

static s64 alarm_new(struct abi_proc *p, const struct abi_alarm *from)
{
	s64 id = -LINUX_EAGAIN;
	u32 i;

	abi_lock(p, &p->alarms.lock);
	for (i = 0; i < ABI_ALARMS && id < 0; i++) {
		if (p->alarms.alarm[i].used)
			continue;
		id = i;
		p->alarms.alarm[i] = *from;
	}
	abi_unlock(p, &p->alarms.lock);
	return id;
}

s64 abi_sys_timer_create(struct abi_call *c)
{
	struct abi_alarm a = {
		.used = 1, .deadline = ABI_FOREVER, .check = ABI_FOREVER};
	struct sigevent e;
	s64 rc = clock_check(c, &a), id;
	s32 out;

	if (rc)
		return rc;
	abi_memset(&e, 0, sizeof(e));
	e.signo = ABI_SIGALRM;
	if (c->a[1] && ABI_GET(c->p, &e, c->a[1]))
		return -LINUX_EFAULT;
	rc = event_check(c, &e);
	if (!rc)
		rc = abi_user_check(c->p, c->a[2], 4, ABI_PROT_WRITE);
	if (rc)
		return rc;
	a.notify = e.notify;
	a.signo = (u32)e.signo;
	a.tid = e.tid;
	a.value = e.value;
	id = alarm_new(c->p, &a);
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
	struct setting to = {.absolute = !!(c->a[1] & TIMER_ABSTIME)};
	s64 rc;

	if (!a || !c->a[2])
		return -LINUX_EINVAL;
	rc = abi_time_get(c->p, c->a[2], &to.interval);
	if (!rc)
		rc = abi_time_get(c->p, c->a[2] + 16, &to.value);
	if (rc)
		return rc;
	if (to.absolute && to.value && a->clock == ABI_CLOCK_ID_REALTIME)
		to.value = abi_time_real(c->p, to.value);
	arm_alarm(c->p, a, &to);
	return c->a[3] ? spec_put(c, c->a[3], to.old_left, to.old_interval) : 0;
}

s64 abi_sys_timer_gettime(struct abi_call *c)
{
	struct abi_alarm *a = alarm_get(c);
	u64 value, interval;

	if (!a)
		return -LINUX_EINVAL;
	abi_lock(c->p, &c->p->alarms.lock);
	value = time_left(a, alarm_now(c->p, a));
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
	struct setting off = {.value = 0};

	if (!a)
		return -LINUX_EINVAL;
	arm_alarm(c->p, a, &off);
	abi_lock(c->p, &c->p->alarms.lock);
	a->used = 0;
	abi_unlock(c->p, &c->p->alarms.lock);
	return 0;
}
