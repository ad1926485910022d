/* SPDX-License-Identifier: MIT */
/* Clocks, sleeps, and timers that send signals. */
#include "guest.h"

#define TIMER_ABSTIME 1
#define MS 1000000ull
#define SIGALRM 14

static u64 *words_at(u64 gaddr)
{
	return (u64 *)gaddr;
}

static void time_at(u64 gaddr, u64 ns)
{
	words_at(gaddr)[0] = ns / ABI_NS;
	words_at(gaddr)[1] = ns % ABI_NS;
}

static u64 time_of(u64 gaddr)
{
	return words_at(gaddr)[0] * ABI_NS + words_at(gaddr)[1];
}

static u64 guest_monotonic(void)
{
	return guest_now(ABI_CLOCK_MONOTONIC);
}

static int is_near(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) < 2 * ABI_NS;
}

static void test_clocks(void)
{
	static const u32 real[] = {0, 5, 8, 11}, steady[] = {1, 4, 6, 7, 9};
	u32 i, bad = 0;

	for (i = 0; i < 4; i++)
		bad += CALL(clock_gettime, real[i], page) != 0 ||
		       !is_near(time_of(page), guest_now(ABI_CLOCK_REALTIME));
	for (i = 0; i < 5; i++)
		bad += CALL(clock_gettime, steady[i], page) != 0 ||
		       !is_near(time_of(page), guest_monotonic());
	tap_ok(!bad, "each clock returns its own time");
	TAP(CALL(clock_gettime, 2, page) == 0 && time_of(page) > 0);
	TAP(CALL(clock_gettime, 3, page) == 0);
	TAP(CALL(clock_gettime, (~4242ull << 3) | 6, page) == 0);
	TAP(CALL(clock_gettime, (~4242ull << 3) | 2, page) == 0);
	TAP(CALL(clock_gettime, (~4243ull << 3) | 6, page) == -LINUX_EINVAL);
	TAP(CALL(clock_gettime, 12, page) == -LINUX_EINVAL);
	TAP(CALL(clock_gettime, 1, 0x1000) == -LINUX_EFAULT);
	TAP(CALL(clock_getres, 1, page) == 0 && time_of(page) == 1);
	TAP(CALL(clock_getres, 1, 0) == 0);
	TAP(CALL(clock_getres, 99, 0) == -LINUX_EINVAL);
	TAP(CALL(clock_settime, 0, page) == -LINUX_EPERM);
	TAP(CALL(gettimeofday, page, 0) == 0 &&
	    is_near(words_at(page)[0] * ABI_NS,
		    guest_now(ABI_CLOCK_REALTIME)) &&
	    words_at(page)[1] < 1000000);
	TAP((u64)CALL(time, page) == words_at(page)[0]);
	TAP(CALL(times, page) > 0);
}

static void test_sleep(void)
{
	u64 start = guest_monotonic();

	time_at(page, 10 * MS);
	TAP(CALL(nanosleep, page, 0) == 0);
	tap_ok(guest_monotonic() - start >= 10 * MS,
	       "a relative sleep is not too short");
	start = guest_monotonic();
	time_at(page, start + 10 * MS);
	TAP(CALL(clock_nanosleep, 1, TIMER_ABSTIME, page, 0) == 0);
	tap_ok(guest_monotonic() - start >= 10 * MS,
	       "an absolute sleep is not too short");
	time_at(page, guest_now(ABI_CLOCK_REALTIME) + 10 * MS);
	start = guest_monotonic();
	TAP(CALL(clock_nanosleep, 0, TIMER_ABSTIME, page, 0) == 0);
	tap_ok(guest_monotonic() - start >= 9 * MS &&
		       guest_monotonic() - start < 5 * ABI_NS,
	       "a sleep on the wall clock is not too short");
	time_at(page, 5);
	TAP(CALL(clock_nanosleep, 0, TIMER_ABSTIME, page, 0) == 0);
	TAP(CALL(clock_nanosleep, 1, TIMER_ABSTIME, page, 0) == 0);
	TAP(CALL(clock_nanosleep, 3, 0, page, 0) == -LINUX_EOPNOTSUPP);
	TAP(CALL(clock_nanosleep, 4, 0, page, 0) == -LINUX_EOPNOTSUPP);
	TAP(CALL(clock_nanosleep, 12, 0, page, 0) == -LINUX_EINVAL);
	TAP(CALL(nanosleep, 0x1000, 0) == -LINUX_EFAULT);
	words_at(page)[1] = ABI_NS;
	TAP(CALL(nanosleep, page, 0) == -LINUX_EINVAL);
	words_at(page)[0] = ~0ull;
	words_at(page)[1] = 0;
	TAP(CALL(nanosleep, page, 0) == -LINUX_EINVAL);
}

/* Timers ---------------------------------------------------------------------
 */

static u64 armed;

static void timer_arm(u64 deadline)
{
	armed = deadline;
}

static void block_alarm(void)
{
	words_at(page)[0] = 1ull << (SIGALRM - 1) | 1ull << 33 | 1ull << 26 |
			    1ull << 23; /* SIGPROF, SIGXCPU */
	CALL(rt_sigprocmask, 0, page, 0, 8);
}

/* The next pending signal, siginfo at page + 0x200; or -EAGAIN. */
static s64 next_signal(void)
{
	words_at(page + 0x180)[0] = ~0ull;
	time_at(page + 0x190, 0);
	return CALL(rt_sigtimedwait, page + 0x180, page + 0x200, page + 0x190,
		    8);
}

static void test_alarm(void)
{
	u64 now = guest_monotonic();

	TAP(CALL(alarm, 100) == 0);
	tap_ok(armed >= now + 100 * ABI_NS &&
		       armed < guest_monotonic() + 101 * ABI_NS,
	       "an alarm arms the host's timer");
	TAP(CALL(alarm, 50) == 100 && CALL(alarm, 0) == 50);
	TAP(armed == ABI_FOREVER);
	words_at(page)[0] = 0;
	words_at(page)[1] = 10000; /* every 10 ms, first after 20 ms */
	words_at(page)[2] = 0;
	words_at(page)[3] = 20000;
	now = guest_monotonic();
	TAP(CALL(setitimer, 0, page, 0) == 0);
	TAP(abi_timer_fire(p, now) == armed && next_signal() == -LINUX_EAGAIN);
	now = armed;
	tap_ok(abi_timer_fire(p, now) == now + 10 * MS &&
		       next_signal() == SIGALRM,
	       "an interval timer sends its signal again");
	tap_ok(abi_timer_fire(p, now + 95 * MS) == now + 100 * MS,
	       "a late interval timer skips missed expirations");
	TAP(next_signal() == SIGALRM && next_signal() == -LINUX_EAGAIN);
	TAP(CALL(getitimer, 0, page) == 0 && words_at(page)[1] == 10000);
	memset(words_at(page), 0, 32);
	TAP(CALL(setitimer, 0, page, page + 64) == 0 && armed == ABI_FOREVER);
	TAP(words_at(page + 64)[1] == 10000 && words_at(page + 64)[2] == 0);
	words_at(page)[3] = 1000000;
	TAP(CALL(setitimer, 0, page, 0) == -LINUX_EINVAL);
	TAP(CALL(setitimer, 2, page, 0) == -LINUX_ENOSYS &&
	    strstr(fake.last_log, "ITIMER_REAL"));
}

static s64 timer_create_of(u32 notify, u32 tid, u64 value)
{
	u32 *e = (u32 *)(page + 0x300);

	memset(e, 0, 64);
	*(u64 *)e = value;
	e[2] = 34;
	e[3] = notify;
	e[4] = tid;
	return CALL(timer_create, 1, page + 0x300, page + 0x340);
}

static void test_timers(void)
{
	u64 now = guest_monotonic(), spec = page + 0x380;
	s64 n = 0;
	u32 id;

	TAP(timer_create_of(4, 4242, 0x1234567890) == 0);
	id = *(u32 *)(page + 0x340);
	time_at(spec, 0);
	time_at(spec + 16, now + 5 * ABI_NS);
	TAP(CALL(timer_settime, id, TIMER_ABSTIME, spec, 0) == 0);
	TAP(armed == now + 5 * ABI_NS);
	TAP(CALL(timer_gettime, id, spec) == 0 &&
	    is_near(time_of(spec + 16), 5 * ABI_NS));
	TAP(abi_timer_fire(p, armed) == ABI_FOREVER);
	tap_ok(next_signal() == 34 &&
		       words_at(page + 0x200)[3] == 0x1234567890 &&
		       (s32)words_at(page + 0x200)[1] == ABI_SI_TIMER,
	       "a POSIX timer sends its sigevent's value");
	TAP(CALL(timer_getoverrun, id) == 0);
	TAP(CALL(timer_delete, id) == 0);
	TAP(CALL(timer_delete, id) == -LINUX_EINVAL);
	TAP(CALL(timer_gettime, id, spec) == -LINUX_EINVAL);
	TAP(CALL(timer_gettime, ~0ull, spec) == -LINUX_EINVAL);
	TAP(timer_create_of(4, 77, 0) == -LINUX_EINVAL);
	TAP(timer_create_of(2, 0, 0) == -LINUX_EINVAL);
	while (timer_create_of(0, 0, 0) == 0)
		n++;
	tap_ok(n == ABI_ALARMS, "32 POSIX timers exist at once");
	while (n)
		CALL(timer_delete, (u64)--n);
	TAP(timer_create_of(1, 0, 0) == 0);
}

/* CPU time, as the test has it: of the process, and of its one thread. */
static u64 cpu_ns;
static s64 (*real_clock)(u32 clock);

static s64 cpu_clock(u32 clock)
{
	return clock == ABI_CLOCK_PROCESS ? (s64)cpu_ns : real_clock(clock);
}

static s64 thread_clock(u32 thread)
{
	return thread ? -LINUX_ESRCH : (s64)cpu_ns;
}

static void set_profile(u64 us)
{
	memset(words_at(page), 0, 32);
	words_at(page)[1] = words_at(page)[3] = us;
	TAP(CALL(setitimer, 2, page, page + 64) == 0);
}

/* Nothing is due before the time was used, however late it is. */
static void test_profile(void)
{
	u64 now = guest_monotonic(), next;

	cpu_ns = 3 * ABI_NS;
	set_profile(10000);
	TAP(armed >= now + 10 * MS && armed < guest_monotonic() + 11 * MS);
	cpu_ns += 4 * MS;
	next = abi_timer_fire(p, armed);
	tap_ok(next == armed + 6 * MS && next_signal() == -LINUX_EAGAIN,
	       "a timer of CPU time waits for the time that is left");
	cpu_ns += 6 * MS;
	tap_ok(abi_timer_fire(p, next) == next + 10 * MS &&
		       next_signal() == 27 &&
		       (s32)words_at(page + 0x200)[1] == ABI_SI_KERNEL,
	       "it sends its signal when the time was used, and goes on");
	TAP(CALL(getitimer, 2, page) == 0 && words_at(page)[3] == 10000);
	set_profile(0);
	TAP(words_at(page + 64)[1] == 10000 && armed == ABI_FOREVER);
}

static void limit_cpu(u64 soft, u64 hard)
{
	words_at(page)[0] = soft;
	words_at(page)[1] = hard;
	TAP(CALL(setrlimit, 0, page) == 0);
}

/* SIGXCPU each second from the soft limit on, SIGKILL at the hard one. */
static void test_limit(void)
{
	u64 now = guest_monotonic();

	cpu_ns = 3 * ABI_NS;
	limit_cpu(4, 6);
	TAP(armed >= now && armed <= guest_monotonic());
	TAP(abi_timer_fire(p, armed) == armed + ABI_NS &&
	    next_signal() == -LINUX_EAGAIN);
	cpu_ns = 4 * ABI_NS;
	now = armed + ABI_NS;
	tap_ok(abi_timer_fire(p, now) == now + ABI_NS && next_signal() == 24,
	       "SIGXCPU comes at the soft limit");
	TAP(CALL(getrlimit, 0, page) == 0 && words_at(page)[0] == 5);
	TAP(abi_timer_fire(p, now + MS) == now + ABI_NS);
	cpu_ns = 6 * ABI_NS;
	abi_timer_fire(p, now + 2 * ABI_NS);
	tap_ok(p->signals.pending & 1ull << 8, "SIGKILL at the hard limit");
}

int main(void)
{
	guest_new();
	test_clocks();
	test_sleep();
	tap_ok(CALL(alarm, 1) == -LINUX_ENOSYS && fake.logs == 1,
	       "a host without timers is reported");
	fake.host.timer_arm = timer_arm;
	block_alarm();
	test_alarm();
	test_timers();
	real_clock = fake.host.clock;
	fake.host.clock = cpu_clock;
	fake.host.thread_clock = thread_clock;
	test_profile();
	test_limit();
	guest_free();
	return tap_done();
}
