// SPDX-License-Identifier: MIT
/*
 * Asynchronous events for the program: signals of Linux and the timer, which
 * the proxy writes into the mail. Core 0 gets an NMI for each. It handles
 * events here: after a wait, on the way to ring 3, or in the idle loop. There
 * no core holds abi's locks of signals or timers, so they can be locked while
 * the core waits for another lock. With `taking` only one core at a time does
 * that; `lock` guards the deadline.
 */
#include "abi/include/siginfo.h"
#include "kernel.h"

static u32 ready, taking;
static struct spin lock;
static u32 armed; /* number of deadlines that the program has set */
/* The deadline of the program's timers; that of threads without a core. */
static u64 timers = ABI_FOREVER, sleeps = ABI_FOREVER;

static volatile struct mail_events *event_mail(void)
{
	return (void *)(AT_MAIL + MAIL_EVENTS);
}

void sms_events_begin(void)
{
	event_mail()->deadline = ABI_FOREVER;
	__atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
}

int sms_events_is_here(void)
{
	return __atomic_load_n(&ready, __ATOMIC_RELAXED) &&
	       (__atomic_load_n(&event_mail()->signals, __ATOMIC_SEQ_CST) ||
		__atomic_load_n(&event_mail()->due, __ATOMIC_SEQ_CST));
}

static void send_signals(void)
{
	u64 bits = __atomic_exchange_n(&event_mail()->signals, 0,
				       __ATOMIC_SEQ_CST);
	struct abi_siginfo info = {.code = ABI_SI_USER};

	for (; bits; bits &= bits - 1) {
		info.signo = __builtin_ctzll(bits) + 1;
		abi_signal_send(sms_proc, 0, 0, &info);
	}
}

/* The caller holds the lock. */
static void set_deadline(void)
{
	sms_spin_assert(&lock);
	__atomic_store_n(&event_mail()->deadline,
			 timers < sleeps ? timers : sleeps, __ATOMIC_SEQ_CST);
}

void sms_events_arm(u64 deadline_ns)
{
	sms_spin_lock(&lock);
	armed++;
	timers = deadline_ns;
	set_deadline();
	sms_spin_unlock(&lock);
	sms_cpu_doorbell();
}

void sms_events_sleep(u64 deadline_ns)
{
	int sooner;

	sms_spin_lock(&lock);
	sooner = deadline_ns < sleeps;
	if (sooner)
		sleeps = deadline_ns;
	set_deadline();
	sms_spin_unlock(&lock);
	if (sooner)
		sms_cpu_doorbell();
}

/* If the program arms a timer meanwhile, its deadline is newer than the result
 * of abi_timer_fire(). */
static void fire_timers(void)
{
	u64 now, next;
	u32 before;

	if (!__atomic_exchange_n(&event_mail()->due, 0, __ATOMIC_SEQ_CST))
		return;
	now = (u64)sms_time_clock(ABI_CLOCK_MONOTONIC);
	sms_spin_lock(&lock);
	before = armed;
	sleeps = ABI_FOREVER;
	sms_spin_unlock(&lock);
	next = abi_timer_fire(sms_proc, now);
	sms_events_sleep(sms_thread_expire(now));
	sms_spin_lock(&lock);
	if (armed == before)
		timers = next;
	set_deadline();
	sms_spin_unlock(&lock);
	sms_cpu_doorbell();
}

/* Whoever takes events checks again afterwards, so events that arrive meanwhile
 * are not missed. */
void sms_events_take(void)
{
	while (sms_events_is_here()) {
		if (__atomic_exchange_n(&taking, 1, __ATOMIC_SEQ_CST))
			return;
		send_signals();
		fire_timers();
		__atomic_store_n(&taking, 0, __ATOMIC_SEQ_CST);
	}
}
