/* SPDX-License-Identifier: MIT */
/*
 * Two clocks that are read from the processor's time-stamp counter and follow
 * Windows' own, which cost a call. Pure: the counter and what Windows says
 * come in as numbers, so that it is tested with made-up ones.
 *
 * From one look at Windows' clocks to the next the counter is taken times a
 * rate. A clock that fell behind goes forward to Windows'; one that ran ahead
 * goes slower until the next look, so neither goes back.
 */
#ifndef BEE_HOST_WINDOWS_TSC_H
#define BEE_HOST_WINDOWS_TSC_H

#include <skep/types.h>

#define TSC_LOOK_NS 100000000ull /* between two samples */
#define TSC_FIRST_NS 10000000ull /* between the samples for the first rate */
/* The counter is not used if it is further from Windows' monotonic clock. */
#define TSC_TRUST_NS 1000000ll
#define TSC_ASK (-1ll) /* a new sample is due */

enum tsc_which { TSC_REAL, TSC_MONOTONIC, TSC_CLOCKS }; /* as abi's clocks */

struct tsc_look {
	u64 tsc;
	s64 ns[TSC_CLOCKS];
};

struct tsc_clock {
	u32 seq; /* atomic; odd while the clock changes */
	u32 on;
	u32 given_up; /* Windows' clocks are read each time */
	u64 base;     /* of the counter */
	u64 limit;    /* ticks after base at which a new sample is due */
	s64 ns[TSC_CLOCKS];
	u64 rate[TSC_CLOCKS]; /* ns per tick, times 2^32 */
	u64 plain;	      /* the rate without correction */
	struct tsc_look first;
};

/*
 * Returns ns, or TSC_ASK. Any thread may call this; `read` returns the counter.
 */
s64 tsc_now(const struct tsc_clock *c, u32 which, u64 (*read)(void));
void tsc_begin(struct tsc_clock *c, const struct tsc_look *look);
/*
 * One thread at a time. Between tsc_change and tsc_adjust no reader succeeds,
 * and the look is from in between; NULL: Windows' clocks and the counter could
 * not be read together. tsc_adjust puts into the look what the clocks say now.
 */
void tsc_change(struct tsc_clock *c);
void tsc_adjust(struct tsc_clock *c, struct tsc_look *look, int is_good);

#endif
