/* SPDX-License-Identifier: MIT */
/*
 * The clocks that bee.exe reads from the processor's counter, with a counter
 * and clocks of Windows that are made up here.
 */
#include <stdlib.h>
#include <string.h>

#include "bee/host/windows/tsc.h"
#include "tests/tap.h"

#define MS 1000000ll

static struct tsc_clock c;
static s64 now;	     /* the time itself */
static s64 stepped;  /* by whoever set the system's clock */
static double pace;  /* ticks per ns */
static s64 tick_off; /* added to the counter */
static int good;
static u32 looks;

static u64 read_counter(void)
{
	return (u64)((s64)((double)now * pace) + tick_off);
}

/* Windows' clocks go faster and slower, by 20 us for a second each. */
static s64 windows_time(void)
{
	s64 part = now % (2000 * MS);

	return now + (part < 1000 * MS ? part : 2000 * MS - part) / 50000;
}

/* They count 100 ns, and a look takes a while. */
static void take_look(struct tsc_look *l)
{
	l->tsc = read_counter();
	now += rand() % 300;
	l->ns[TSC_MONOTONIC] = windows_time() / 100 * 100;
	l->ns[TSC_REAL] = (windows_time() + stepped) / 100 * 100;
	looks++;
}

static s64 read_clock(u32 which)
{
	s64 ns = tsc_now(&c, which, read_counter);
	struct tsc_look l;

	if (ns != TSC_ASK)
		return ns;
	tsc_change(&c);
	take_look(&l);
	tsc_adjust(&c, &l, good);
	return l.ns[which];
}

static void begin_clock(void)
{
	struct tsc_look l;

	memset(&c, 0, sizeof(c));
	now = 1000 * MS;
	stepped = 0;
	pace = 2.5;
	tick_off = 0;
	good = 1;
	take_look(&l);
	looks = 0;
	tsc_begin(&c, &l);
}

/* `steps` readings, each up to `most` later; the worst error, or -1: back. */
static s64 run_clock(u32 which, u32 steps, s64 most)
{
	s64 last = read_clock(which), ns, error, worst = 0;
	u32 i;

	for (i = 0; i < steps; i++) {
		now += rand() % 4 ? rand() % 3 : rand() % most;
		ns = read_clock(which);
		if (ns < last)
			return -1;
		last = ns;
		error = ns - now - (which == TSC_REAL ? stepped : 0);
		error = error < 0 ? -error : error;
		worst = error > worst ? error : worst;
	}
	return worst;
}

static void check_pace(void)
{
	static const double paces[] = {0.7, 1, 2.0, 2.5000001, 5.1};
	s64 worst = 0, got;
	u32 i, which;

	srand(3);
	for (i = 0; i < 5; i++)
		for (which = 0; which < TSC_CLOCKS; which++) {
			begin_clock();
			pace = paces[i];
			tick_off = (s64)1 << 40;
			tsc_begin(&c, &(struct tsc_look){read_counter(),
							 {windows_time(),
							  windows_time()}});
			got = run_clock(which, 200000, 100000);
			worst = got < 0 || worst < 0 ? -1
				: got > worst	     ? got
						     : worst;
		}
	tap_ok(worst >= 0, "no clock goes back");
	tap_ok(worst >= 0 && worst < 50000,
	       "each clock is right to 50 us (%d ns)", (int)worst);
	tap_ok(looks < 200000 / 100,
	       "the clocks ask the host seldom (%u times)", looks);
}

static void check_idle(void)
{
	s64 worst;

	begin_clock();
	run_clock(TSC_MONOTONIC, 1000, 100000);
	worst = run_clock(TSC_MONOTONIC, 200, 20000 * MS);
	tap_ok(worst >= 0 && worst < 50000 && c.on,
	       "the time is right after a long sleep");
}

static int close_to(s64 error)
{
	return error < 50000 && error > -50000;
}

static void check_step(void)
{
	s64 before;

	begin_clock();
	run_clock(TSC_REAL, 1000, 100000);
	stepped = 3600000 * MS;
	now += 2 * (s64)TSC_LOOK_NS;
	before = read_clock(TSC_REAL);
	tap_ok(close_to(before - now - stepped),
	       "a clock that was set forward is followed");
	stepped = -3600000 * MS;
	now += 2 * (s64)TSC_LOOK_NS;
	before = read_clock(TSC_REAL);
	tap_ok(close_to(before - now - stepped),
	       "a clock that was set back is followed");
	tap_ok(run_clock(TSC_MONOTONIC, 1000, 100000) >= 0 && c.on,
	       "setting the clock does not change the monotonic clock");
}

/* Too little to give up the counter: it goes slower until it is right. */
static void check_ahead(void)
{
	s64 worst;

	begin_clock();
	run_clock(TSC_MONOTONIC, 50000, 100000);
	tick_off += (s64)(0.5 * (double)MS * pace);
	worst = run_clock(TSC_MONOTONIC, 50000, 100000);
	tap_ok(worst > 300000 && !c.given_up,
	       "a counter that was ahead a little is kept (%d ns)", (int)worst);
	worst = run_clock(TSC_MONOTONIC, 50000, 100000);
	tap_ok(worst >= 0 && worst < 100000,
	       "a counter that was ahead is right later (%d ns)", (int)worst);
}

/* However the counter fails: Windows' clock then, and never back. */
static void check_failure(const char *name, s64 jump, double to, int is_good)
{
	s64 last, ns, worst;

	last = read_clock(TSC_MONOTONIC);
	tick_off += jump - (s64)((to - pace) * (double)now);
	pace = to;
	good = is_good;
	ns = read_clock(TSC_MONOTONIC);
	worst = run_clock(TSC_MONOTONIC, 50000, 100000);
	tap_ok(c.given_up && ns >= last && worst >= 0 && worst < 200 * MS,
	       "%s: the TSC is given up, and time does not go back", name);
}

static void run_before(s64 most)
{
	begin_clock();
	run_clock(TSC_MONOTONIC, 5000, most);
}

int main(void)
{
	check_pace();
	check_idle();
	check_step();
	check_ahead();
	run_before(100000);
	check_failure("a counter that begins again", -((s64)1 << 41), 2.5, 1);
	run_before(100000);
	check_failure("a counter that jumps", 1ll << 33, 2.5, 1);
	run_before(1000 * MS);
	check_failure("a counter that jumps after a long time", 1ll << 27, 2.5,
		      1);
	run_before(100000);
	check_failure("a counter that stops", -400 * MS, 2.5, 1);
	run_before(100000);
	check_failure("a counter whose rate changes", 0, 3.0, 1);
	run_before(100000);
	check_failure("no exact reading of the host's clock", 0, 2.5, 0);
	return tap_done();
}
