// SPDX-License-Identifier: MIT
/* Linux's time from the TSC. A proxy that spoils the clock spoils its own. */
#include "kernel.h"

#define TRIES 100000

struct clock {
	u64 tsc_base, mult, fraction, base;
	u32 shift;
};

static const volatile struct skep_partition_clock *source(void)
{
	return (void *)(AT_MAIL + SKEP_MAIL_CLOCK);
}

/* One that is being written for ever is taken as it is. */
static void read_clock(struct clock *c, int realtime)
{
	const volatile struct skep_partition_clock *s = source();
	u32 i, sequence;

	for (i = 0; i < TRIES; i++) {
		sequence = __atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE);
		c->shift = s->shift & 63;
		c->tsc_base = s->tsc_base;
		c->mult = s->mult;
		c->fraction = s->fraction;
		c->base = realtime ? s->realtime : s->monotonic;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(sequence & 1) &&
		    sequence == __atomic_load_n(&s->sequence, __ATOMIC_RELAXED))
			return;
		__builtin_ia32_pause();
	}
}

static u64 ns_of(u64 tsc)
{
	u64 khz = sms_partition->tsc_khz ? sms_partition->tsc_khz : 1;

	return tsc / khz * 1000000 + tsc % khz * 1000000 / khz;
}

s64 sms_time_clock(u32 clock)
{
	struct core *core = sms_core();
	struct clock c = {0};
	u64 now;

	if (clock == ABI_CLOCK_THREAD)
		return (s64)ns_of(sms_tsc() - core->thread_tsc);
	if (clock == ABI_CLOCK_PROCESS) {
		s64 user, system;

		sms_time_rusage(&user, &system);
		return user;
	}
	if (clock > ABI_CLOCK_MONOTONIC)
		return -ABI_EINVAL;
	read_clock(&c, clock == ABI_CLOCK_REALTIME);
	now = sms_tsc();
	now = now > c.tsc_base ? now - c.tsc_base : 0;
	return (s64)(c.base +
		     (u64)(((unsigned __int128)now * c.mult + c.fraction) >>
			   c.shift));
}

/* A core is the program's from its first thread on. */
s64 sms_time_rusage(s64 *user_ns, s64 *system_ns)
{
	u64 sum = 0, now = sms_tsc();
	u32 i;

	for (i = 0; i < sms_partition->cores; i++)
		if (sms_core_at(i)->born_tsc)
			sum += now - sms_core_at(i)->born_tsc;
	*user_ns = (s64)ns_of(sum);
	*system_ns = 0;
	return 0;
}
