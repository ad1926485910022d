// SPDX-License-Identifier: MIT
/* What callers have promised: sanitizer builds trap where it does not hold. */
#include "../health.h"
#include "../policy.h"
#include "tests/trap.h"

static struct dynamos_policy policy;
static struct dynamos_table table;
static struct dynamos_sum sum = {.calls = 1000, .latency[10] = 100};
static u64 no_samples[DYNAMOS_BUCKETS];

static void quantile_beyond(void)
{
	dynamos_health_quantile(sum.latency, 1001);
}

static void quantile_of_none(void)
{
	dynamos_health_quantile(no_samples, 1001);
}

static void judge_unchecked(void)
{
	const struct dynamos_health limits = {.least = 1, .errors = 1001};
	struct dynamos_verdict verdict;

	dynamos_health_judge(&limits, &sum, &sum, &verdict);
}

static void compile_policy(u32 rules, u32 otherwise, u32 terms)
{
	policy.rules = rules;
	policy.otherwise = otherwise;
	policy.rule[0].terms = terms;
	dynamos_policy_compile(&policy, 1, &table);
}

static void compile_rules(void)
{
	compile_policy(DYNAMOS_RULES + 1, 0, 0);
}

static void compile_otherwise(void)
{
	compile_policy(0, 2, 0);
}

static void compile_values(void)
{
	compile_policy(1, 0, DYNAMOS_PID);
}

int main(void)
{
	TRAPS(quantile_beyond, "a part of 1000 is at most 1000");
	TRAPS(quantile_of_none, "a part of no samples is 0");
	TRAPS(judge_unchecked, "limits are checked before a comparison");
	TRAPS(compile_rules, "a policy's number of rules is within its table");
	TRAPS(compile_otherwise, "the default is one of two versions");
	TRAPS(compile_values, "rules are checked before they are compiled");
	return tap_done();
}
