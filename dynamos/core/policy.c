// SPDX-License-Identifier: MIT
#include <skep/assert.h>

#include "policy.h"

#define WORD 0xffffffffull

static int comm_wrong(const struct dynamos_rule *r)
{
	u32 i;

	for (i = 0; i < sizeof(r->comm); i++)
		if (!r->comm[i])
			return !i;
	return 1;
}

static int cpus_empty(const struct dynamos_rule *r)
{
	u64 any = 0;
	u32 i;

	for (i = 0; i < DYNAMOS_CPU_WORDS; i++)
		any |= r->cpus[i];
	return !any;
}

/* The error in one rule's values, or NULL. */
static const char *value_wrong(const struct dynamos_rule *r)
{
	if (r->terms & DYNAMOS_PROGRAM && r->terms & DYNAMOS_PID)
		return "a rule with a program has no pid: the program can read "
		       "the task's";
	if (r->terms & DYNAMOS_PROGRAM && r->program < 0)
		return "the descriptor of a program must be 0 or more";
	if (r->terms & DYNAMOS_PID && r->pid <= 0)
		return "a pid must be above 0";
	if (r->terms & DYNAMOS_TGID && r->tgid <= 0)
		return "a tgid must be above 0";
	if (r->terms & DYNAMOS_COMM && comm_wrong(r))
		return "comm must have 1 to 15 bytes and end with a NUL";
	if (r->terms & DYNAMOS_UID && r->uid == WORD)
		return "4294967295 is not a valid uid";
	if (r->terms & DYNAMOS_GID && r->gid == WORD)
		return "4294967295 is not a valid gid";
	if (r->terms & DYNAMOS_CGROUP && !r->cgroup)
		return "the inode number of a cgroup must be above 0";
	if (r->terms & DYNAMOS_CPUS && cpus_empty(r))
		return "the CPU set is empty";
	if (r->terms & DYNAMOS_SHARE && r->share > 65536)
		return "a share must be 0 to 65536";
	if (r->per >= DYNAMOS_PERS)
		return "a share must be of processes (0), users (1) or cgroups "
		       "(2)";
	if (r->per && !(r->terms & DYNAMOS_SHARE))
		return "it names what a share is of, and has no share";
	if (r->terms & DYNAMOS_WINDOW && r->from >= r->until)
		return "a window must end after it begins";
	return (void *)0;
}

static const char *rule_wrong(const struct dynamos_rule *r)
{
	if (r->terms & ~DYNAMOS_TERMS)
		return "its term is unknown to this revision";
	if (r->choice > 1)
		return "choice must be 0 (older version) or 1 (new version)";
	return value_wrong(r);
}

static int refuse_rule(struct dynamos_refusal *refusal, u32 rule,
		       const char *why)
{
	refusal->rule = rule;
	refusal->why = why;
	return -LINUX_EINVAL;
}

int dynamos_policy_check(const struct dynamos_policy *p, u32 class,
			 struct dynamos_refusal *refusal)
{
	const char *wrong;
	u32 i;

	refusal->rule = DYNAMOS_RULES;
	refusal->why = (void *)0;
	if (class < DYNAMOS_ANY || class > DYNAMOS_TOGETHER)
		return refuse_rule(refusal, DYNAMOS_RULES, "unknown class");
	if (p->rules > DYNAMOS_RULES)
		return refuse_rule(refusal, DYNAMOS_RULES,
				   "more than 16 rules");
	if (p->otherwise > 1)
		return refuse_rule(refusal, DYNAMOS_RULES,
				   "otherwise must be 0 (older version) or 1 "
				   "(new version)");
	for (i = 0; i < p->rules; i++) {
		wrong = rule_wrong(&p->rule[i]);
		if (wrong)
			return refuse_rule(refusal, i, wrong);
	}
	if (class == DYNAMOS_TOGETHER && (p->rules || !p->otherwise))
		return refuse_rule(refusal, DYNAMOS_RULES,
				   "an update of class together applies to all "
				   "tasks: give no rules and otherwise 1");
	return 0;
}

static int rule_extends(const struct dynamos_rule *rule,
			const struct dynamos_rule *earlier)
{
	const u64 end = __builtin_offsetof(struct dynamos_rule, until);
	const u64 rest = end + sizeof(rule->until);

	return !__builtin_memcmp(rule, earlier, end) &&
	       !__builtin_memcmp((const u8 *)rule + rest,
				 (const u8 *)earlier + rest,
				 sizeof(*rule) - rest);
}

int dynamos_policy_extends(const struct dynamos_policy *policy,
			   const struct dynamos_policy *earlier)
{
	u32 i;

	if (policy->rules != earlier->rules ||
	    policy->otherwise != earlier->otherwise)
		return 0;
	for (i = 0; i < policy->rules && i < DYNAMOS_RULES; i++)
		if (!rule_extends(&policy->rule[i], &earlier->rule[i]))
			return 0;
	return 1;
}

/* 1 if a rule has one of these terms. */
static int has_term(const struct dynamos_policy *policy, u32 terms)
{
	u32 i;

	for (i = 0; i < policy->rules && i < DYNAMOS_RULES; i++)
		if (policy->rule[i].terms & terms)
			return 1;
	return 0;
}

int dynamos_policy_ends(const struct dynamos_policy *policy)
{
	return has_term(policy, DYNAMOS_WINDOW);
}

int dynamos_policy_programs(const struct dynamos_policy *policy)
{
	return has_term(policy, DYNAMOS_PROGRAM);
}

u32 dynamos_policy_hash(u64 unit, u64 key)
{
	u64 x = unit ^ key;

	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return (x ^ x >> 33) & 0xffff;
}

/* Compares one half, 32 bits, of a word. */
static void match_half(struct dynamos_test *test, u32 word, u32 high, u32 value)
{
	test->mask[word] |= WORD << 32 * high;
	test->want[word] |= (u64)value << 32 * high;
}

/* What follows the NUL is not compared. */
static void match_name(struct dynamos_test *test, const char *comm)
{
	u32 i, n;

	for (i = 0; i < 16; i++) {
		n = DYNAMOS_OF_NAME + i / 8;
		test->mask[n] |= 0xffull << i % 8 * 8;
		test->want[n] |= (u64)(u8)comm[i] << i % 8 * 8;
		if (!comm[i])
			return;
	}
}

static void add_test(struct dynamos_test *test, const struct dynamos_rule *r,
		     u32 n)
{
	skep_assert(!rule_wrong(r));
	test->rule = n;
	test->choice = r->choice;
	test->more = r->terms & (DYNAMOS_CGROUP | DYNAMOS_CPUS | DYNAMOS_SHARE |
				 DYNAMOS_WINDOW | DYNAMOS_PROGRAM);
	if (r->terms & DYNAMOS_PID)
		match_half(test, DYNAMOS_OF_NUMBERS, 0, r->pid);
	if (r->terms & DYNAMOS_TGID)
		match_half(test, DYNAMOS_OF_NUMBERS, 1, r->tgid);
	if (r->terms & DYNAMOS_UID)
		match_half(test, DYNAMOS_OF_OWNER, 0, r->uid);
	if (r->terms & DYNAMOS_GID)
		match_half(test, DYNAMOS_OF_OWNER, 1, r->gid);
	if (r->terms & DYNAMOS_COMM)
		match_name(test, r->comm);
}

/* Builds the table for calls in one context from the rules that can match
 * there. */
static void build_tests(struct dynamos_test *test,
			const struct dynamos_policy *p, u32 never)
{
	u32 i;

	for (i = 0; i < p->rules; i++)
		if (!(p->rule[i].terms & never))
			add_test(test++, &p->rule[i], i);
	test->choice = p->otherwise;
}

void dynamos_policy_compile(const struct dynamos_policy *policy, u64 key,
			    struct dynamos_table *table)
{
	skep_assert(policy->rules <= DYNAMOS_RULES && policy->otherwise <= 1);
	__builtin_memset(table, 0, sizeof(*table));
	table->policy = *policy;
	table->key = key;
	build_tests(table->task, policy, 0);
	build_tests(table->outside, policy, DYNAMOS_TERMS_TASK);
}
