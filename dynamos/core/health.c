// SPDX-License-Identifier: MIT
#include <skep/assert.h>

#include "health.h"

const char *dynamos_health_check(const struct dynamos_health *limits)
{
	if (limits->zero)
		return "a reserved field of health is not zero";
	if (limits->errors > 1000)
		return "health.errors must be 0 (off) or 1 to 1000, per 1000 "
		       "calls";
	if (limits->latency && limits->latency <= 100)
		return "health.latency must be 0 (off) or above 100 percent";
	if ((limits->errors || limits->latency) && !limits->least)
		return "health.least must be at least 1: a comparison needs "
		       "that many calls";
	return (void *)0;
}

/* Samples are assumed to lie evenly within a bucket, so that a quantile has a
 * finer resolution than the buckets' factor of two. */
u64 dynamos_health_quantile(const u64 *latency, u32 part)
{
	u64 all = 0, below = 0, rank, from;
	u32 i;

	skep_assert(part <= 1000);
	for (i = 0; i < DYNAMOS_BUCKETS; i++)
		all += latency[i];
	if (!all)
		return 0;
	rank = all / 1000 * part + all % 1000 * part / 1000;
	if (rank >= all)
		rank = all - 1;
	for (i = 0; below + latency[i] <= rank; i++)
		below += latency[i];
	skep_assert(i < DYNAMOS_BUCKETS);
	from = i ? 1ull << i : 0;
	return from + ((2ull << i) - from) *
			      ((rank - below) * 1000 / latency[i]) / 1000;
}

static u64 count_samples(const struct dynamos_sum *sum)
{
	u64 all = 0;
	u32 i;

	for (i = 0; i < DYNAMOS_BUCKETS; i++)
		all += sum->latency[i];
	return all;
}

static int errors_rose(const struct dynamos_health *limits,
		       const struct dynamos_sum *newer,
		       const struct dynamos_sum *older,
		       struct dynamos_verdict *verdict)
{
	verdict->newer = newer->errors * 1000 / newer->calls;
	verdict->older = older->errors * 1000 / older->calls;
	return verdict->newer > verdict->older + limits->errors;
}

static int is_slower(const struct dynamos_health *limits,
		     const struct dynamos_sum *newer,
		     const struct dynamos_sum *older,
		     struct dynamos_verdict *verdict)
{
	if (count_samples(newer) < DYNAMOS_SAMPLES ||
	    count_samples(older) < DYNAMOS_SAMPLES)
		return 0;
	verdict->newer = dynamos_health_quantile(newer->latency, 500);
	verdict->older = dynamos_health_quantile(older->latency, 500);
	return verdict->newer * 100 > verdict->older * limits->latency;
}

void dynamos_health_judge(const struct dynamos_health *limits,
			  const struct dynamos_sum *newer,
			  const struct dynamos_sum *older,
			  struct dynamos_verdict *verdict)
{
	skep_assert(!dynamos_health_check(limits));
	verdict->cause = 0;
	verdict->newer = verdict->older = 0;
	if (!limits->least || newer->calls < limits->least ||
	    older->calls < limits->least)
		return;
	if (limits->errors && errors_rose(limits, newer, older, verdict))
		verdict->cause = DYNAMOS_ERRORS;
	else if (limits->latency && is_slower(limits, newer, older, verdict))
		verdict->cause = DYNAMOS_SLOW;
}

static void subtract_count(u64 *count, u64 start)
{
	*count = *count > start ? *count - start : 0;
}

void dynamos_health_since(struct dynamos_sum *sum,
			  const struct dynamos_sum *start)
{
	u32 i;

	subtract_count(&sum->calls, start->calls);
	subtract_count(&sum->errors, start->errors);
	for (i = 0; i < DYNAMOS_BUCKETS; i++)
		subtract_count(&sum->latency[i], start->latency[i]);
}
