// SPDX-License-Identifier: MIT
/*
 * Clocks that use the time-stamp counter; see tsc.h. This file has no state.
 */
#include "tsc.h"

static s64 ns_at(const struct tsc_clock *c, u32 which, u64 ticks)
{
	return c->ns[which] +
	       (s64)(((unsigned __int128)ticks * c->rate[which]) >> 32);
}

/*
 * A reader reads the counter while `seq` is even and has the same value before
 * and after. So the reading is before any later change, and no reader is ahead
 * of the next base.
 */
s64 tsc_now(const struct tsc_clock *c, u32 which, u64 (*read)(void))
{
	u32 seq = __atomic_load_n(&c->seq, __ATOMIC_ACQUIRE);
	u64 ticks, limit;
	s64 ns;

	if (!c->on || (seq & 1))
		return TSC_ASK;
	ticks = read() - c->base;
	limit = c->limit;
	ns = ns_at(c, which, ticks);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&c->seq, __ATOMIC_RELAXED) != seq || ticks > limit)
		return TSC_ASK;
	return ns;
}

void tsc_begin(struct tsc_clock *c, const struct tsc_look *look)
{
	c->first = *look;
	c->on = 0;
}

void tsc_change(struct tsc_clock *c)
{
	__atomic_store_n(&c->seq, c->seq + 1, __ATOMIC_SEQ_CST);
}

/* ns per tick since the first sample, times 2^32; 0: it is not known yet. */
static u64 rate_since(const struct tsc_clock *c, const struct tsc_look *look)
{
	s64 ns = look->ns[TSC_MONOTONIC] - c->first.ns[TSC_MONOTONIC];
	u64 ticks = look->tsc - c->first.tsc;

	if (ns < (s64)TSC_FIRST_NS || look->tsc <= c->first.tsc)
		return 0;
	return (u64)((((unsigned __int128)(u64)ns) << 32) / ticks);
}

/*
 * The largest time that a reader can have returned; it is not beyond the limit.
 */
static s64 time_reported(const struct tsc_clock *c, u32 which, u64 tsc)
{
	u64 ticks = tsc - c->base;

	return ns_at(c, which, ticks < c->limit ? ticks : c->limit);
}

/*
 * Continues from `was` to the time that Windows' clock will show at the next
 * sample.
 */
static void rate_follow(struct tsc_clock *c, u32 which, s64 was, s64 is,
			u64 rate)
{
	s64 ahead = was - is;

	c->rate[which] = rate;
	c->ns[which] = is;
	if (ahead <= 0 || ahead > TSC_TRUST_NS)
		return;
	c->ns[which] = was;
	c->rate[which] -=
		(u64)((unsigned __int128)rate * (u64)ahead / TSC_LOOK_NS);
}

static u64 time_distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* The counter stopped, went back, or changed its rate. */
static int is_off(const struct tsc_clock *c, const struct tsc_look *look,
		  u64 rate)
{
	u64 ticks = look->tsc - c->base;
	s64 ahead = time_reported(c, TSC_MONOTONIC, look->tsc) -
		    look->ns[TSC_MONOTONIC];

	return ticks >> 63 || ahead > TSC_TRUST_NS ||
	       (ticks <= c->limit && ahead < -TSC_TRUST_NS) ||
	       time_distance(rate, c->plain) > c->plain >> 9;
}

static void give_up(struct tsc_clock *c, const struct tsc_look *look)
{
	if (c->on)
		c->ns[TSC_MONOTONIC] =
			time_reported(c, TSC_MONOTONIC, look->tsc);
	c->on = 0;
	c->given_up = 1;
}

static void go_on(struct tsc_clock *c, const struct tsc_look *look, u64 rate)
{
	u32 i;

	for (i = 0; i < TSC_CLOCKS; i++)
		rate_follow(c, i,
			    c->on ? time_reported(c, i, look->tsc)
				  : look->ns[i],
			    look->ns[i], rate);
	c->plain = rate;
	c->base = look->tsc;
	c->limit = (u64)(((unsigned __int128)TSC_LOOK_NS << 32) / rate);
	c->on = 1;
}

void tsc_adjust(struct tsc_clock *c, struct tsc_look *look, int is_good)
{
	u64 rate = rate_since(c, look);
	u32 i;

	if (!is_good || (c->on && is_off(c, look, rate)))
		give_up(c, look);
	else if (rate && !c->given_up)
		go_on(c, look, rate);
	for (i = 0; c->on && i < TSC_CLOCKS; i++)
		look->ns[i] = c->ns[i];
	if (c->given_up && look->ns[TSC_MONOTONIC] < c->ns[TSC_MONOTONIC])
		look->ns[TSC_MONOTONIC] = c->ns[TSC_MONOTONIC];
	__atomic_store_n(&c->seq, c->seq + 1, __ATOMIC_RELEASE);
}
