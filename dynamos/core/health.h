/* SPDX-License-Identifier: MIT */
/*
 * Compares the counts of two versions that run at the same time and judges the
 * newer one.
 */
#ifndef DYNAMOS_HEALTH_H
#define DYNAMOS_HEALTH_H

#include <skep/dynamos.h>

/* Fewer samples give no meaningful median, however small `least` is. */
#define DYNAMOS_SAMPLES 32

/* Counts of one version, over all processors, since a comparison began. */
struct dynamos_sum {
	u64 calls; /* calls that returned */
	u64 errors;
	u64 latency[DYNAMOS_BUCKETS];
};

/* The two figures of a verdict: errors per 1000 calls, or ns. */
struct dynamos_verdict {
	u32 cause; /* enum dynamos_cause, 0: nothing is wrong */
	u64 newer, older;
};

/* What is invalid in the limits, or NULL. */
const char *dynamos_health_check(const struct dynamos_health *limits);

/* The time in ns below which `part` of 1000 samples lie, 0 without samples. */
u64 dynamos_health_quantile(const u64 *latency, u32 part);

/* The bucket of a duration. */
static inline u32 dynamos_health_bucket(u64 ns)
{
	u32 bucket = ns ? 63 - __builtin_clzll(ns) : 0;

	return bucket < DYNAMOS_BUCKETS ? bucket : DYNAMOS_BUCKETS - 1;
}

void dynamos_health_judge(const struct dynamos_health *limits,
			  const struct dynamos_sum *newer,
			  const struct dynamos_sum *older,
			  struct dynamos_verdict *verdict);

/* Subtracts the counts at the start of a comparison. Counts grow while they are
 * read. */
void dynamos_health_since(struct dynamos_sum *sum,
			  const struct dynamos_sum *start);

#endif
