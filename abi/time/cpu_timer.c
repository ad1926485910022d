// SPDX-License-Identifier: MIT
/*
 * Owns the arithmetic of timers of CPU time; alarm.c keeps and fires them.
 * Between two looks as many threads as can run may have used the clock, so the
 * next look is when that many would have used up the rest: a program that
 * sleeps is looked at again and again, but a timer is late by LOOK at most.
 */
#include "cpu_timer.h"
#include "time.h"
#include "abi/include/siginfo.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define LOOK 1000000ull /* ns between two looks, as a tick of Linux */

u64 abi_cpu_used(struct abi_proc *p, const struct abi_alarm *a)
{
	s64 user = 0, system = 0, used = 0;

	abi_assert_locked(&p->alarms.lock);
	switch (a->source) {
	case ABI_ALARM_USER:
		p->host->rusage(&user, &system);
		return (u64)user;
	case ABI_ALARM_THREAD:
		if (p->threads.thread[a->thread].uses == a->uses)
			used = p->host->thread_clock(a->thread);
		return used > 0 ? (u64)used : 0;
	default:
		return (u64)p->host->clock(ABI_CLOCK_PROCESS);
	}
}

/* How many threads can use a clock at once. */
static u64 count_users(struct abi_proc *p, u32 source)
{
	u32 live = __atomic_load_n(&p->threads.live, __ATOMIC_RELAXED);

	if (source == ABI_ALARM_THREAD || !live)
		return 1;
	return live < p->info.cpus ? live : p->info.cpus;
}

static u64 next_look(u64 rest, u64 users, u64 now)
{
	rest /= users;
	if (rest < LOOK)
		rest = LOOK;
	return rest < ABI_FOREVER - now ? now + rest : ABI_FOREVER;
}

u64 abi_cpu_check(struct abi_proc *p, const struct abi_alarm *a, u64 used,
		  u64 now)
{
	if (a->deadline == ABI_FOREVER)
		return ABI_FOREVER;
	return next_look(a->deadline > used ? a->deadline - used : 0,
			 count_users(p, a->source), now);
}

/* A thread's turn: what it used since its last signal, if it ran since then. */
static s64 thread_credit(struct abi_proc *p, u32 i, u32 signo)
{
	struct abi_thread *t = &p->threads.thread[i];
	struct abi_cpu_share *share = &p->alarms.share[i];
	u64 seen = share->seen;
	s64 used;

	if (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != ABI_THREAD_LIVE)
		return -1;
	used = p->host->thread_clock(i);
	if (used < 0)
		return -1;
	if (share->uses != t->uses + 1) {
		*share = (struct abi_cpu_share){t->uses + 1, 0, 0};
		seen = 0;
	}
	share->seen = (u64)used;
	if ((u64)used == seen ||
	    __atomic_load_n(&t->blocked, __ATOMIC_RELAXED) &
		    abi_signal_bit(signo))
		return -1;
	return (u64)used > share->charged ? (s64)((u64)used - share->charged)
					  : 0;
}

void abi_cpu_begin(struct abi_proc *p)
{
	u32 i, high = __atomic_load_n(&p->threads.high, __ATOMIC_RELAXED);
	s64 used;

	abi_assert_locked(&p->alarms.lock);
	for (i = 0; i < high; i++) {
		used = p->host->thread_clock(i);
		if (used >= 0)
			p->alarms.share[i] = (struct abi_cpu_share){
				p->threads.thread[i].uses + 1, (u64)used,
				(u64)used};
	}
}

u32 abi_cpu_runner(struct abi_proc *p, u32 signo, u64 ns)
{
	u32 i, high = __atomic_load_n(&p->threads.high, __ATOMIC_RELAXED);
	s64 credit, most = -1;
	u32 best = 0;

	abi_assert_locked(&p->alarms.lock);
	for (i = 0; i < high; i++) {
		credit = thread_credit(p, i, signo);
		if (credit > most) {
			most = credit;
			best = i;
		}
	}
	if (most < 0)
		return 0;
	p->alarms.share[best].charged += ns;
	return p->threads.thread[best].tid;
}

/* RLIMIT_CPU: as setrlimit(2), SIGXCPU each second from the soft limit on. */

static u64 limit_ns(u64 seconds)
{
	seconds += !seconds;
	return seconds < ABI_FOREVER / ABI_NS ? seconds * ABI_NS : ABI_FOREVER;
}

/* The signal that is due, or 0; the soft limit moves on. */
static u32 take_limit(struct abi_proc *p, u64 used, u64 *due)
{
	struct abi_rlimit *limit = &p->limit[ABI_RLIMIT_CPU];
	u64 hard = limit_ns(limit->max), soft = limit_ns(limit->cur);
	u32 signo = 0;

	abi_assert_locked(&p->lock);
	if (used >= hard) {
		signo = ABI_SIGKILL;
	} else if (used >= soft) {
		signo = ABI_SIGXCPU;
		limit->cur = used / ABI_NS + 1;
		soft = limit_ns(limit->cur);
	}
	*due = soft < hard ? soft : hard;
	return signo;
}

u64 abi_cpu_limit_check(struct abi_proc *p, u64 now)
{
	struct abi_siginfo info = {.code = ABI_SI_KERNEL};
	u64 used, due, next;

	abi_lock(p, &p->alarms.lock);
	next = p->alarms.limit_check;
	abi_unlock(p, &p->alarms.lock);
	if (next > now)
		return next;
	used = (u64)p->host->clock(ABI_CLOCK_PROCESS);
	abi_lock(p, &p->lock);
	info.signo = (s32)take_limit(p, used, &due);
	abi_lock(p, &p->alarms.lock);
	next = due == ABI_FOREVER
		       ? due
		       : next_look(due > used ? due - used : 0,
				   count_users(p, ABI_ALARM_PROCESS), now);
	p->alarms.limit_check = next;
	abi_unlock(p, &p->alarms.lock);
	abi_unlock(p, &p->lock);
	if (info.signo)
		abi_signal_send(p, 0, 0, &info);
	return next;
}

void abi_cpu_limit_arm(struct abi_proc *p)
{
	const struct abi_rlimit *limit = &p->limit[ABI_RLIMIT_CPU];
	u64 now;

	if (!p->host->timer_arm || (limit->cur == ABI_RLIM_INFINITY &&
				    limit->max == ABI_RLIM_INFINITY))
		return;
	now = (u64)p->host->clock(ABI_CLOCK_MONOTONIC);
	abi_lock(p, &p->alarms.lock);
	p->alarms.limit_check = now;
	abi_unlock(p, &p->alarms.lock);
	p->host->timer_arm(now);
}
