/* SPDX-License-Identifier: MIT */
/*
 * Reads Linux's time from the page that the module writes, for sms and for the
 * program; skep/partition.h has the formula.
 */
#ifndef SMS_CLOCK_H
#define SMS_CLOCK_H

#include <skep/partition.h>

#define SMS_CLOCK_TRIES 100000

/* The TSC, read in order: it is never less than an earlier read. */
static inline u64 sms_clock_tsc(void)
{
	u32 low, high;

	__asm__ volatile("lfence\n\trdtsc"
			 : "=a"(low), "=d"(high)
			 :
			 : "memory");
	return low | (u64)high << 32;
}

/* Returns ns. If a write of the page never ends, the page is used as it is. */
static inline u64 sms_clock_read(const volatile struct skep_partition_clock *s,
				 int realtime)
{
	u64 base, mult, fraction, tsc_base, now;
	u32 i, sequence, shift;

	for (i = 0; i < SMS_CLOCK_TRIES; i++) {
		sequence = __atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE);
		shift = s->shift & 63;
		tsc_base = s->tsc_base;
		mult = s->mult;
		fraction = s->fraction;
		base = realtime ? s->realtime : s->monotonic;
		now = sms_clock_tsc();
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(sequence & 1) &&
		    sequence == __atomic_load_n(&s->sequence, __ATOMIC_RELAXED))
			break;
		__builtin_ia32_pause();
	}
	now = now > tsc_base ? now - tsc_base : 0;
	return base +
	       (u64)(((unsigned __int128)now * mult + fraction) >> shift);
}

#endif
