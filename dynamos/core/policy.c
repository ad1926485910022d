// SPDX-License-Identifier: MIT
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

/* What is wrong with the values of one rule, if anything. */
static const char *value_wrong(const struct dynamos_rule *r)
{
	if (r->terms & DYNAMOS_PID && r->pid <= 0)
		return "a pid is above 0";
	if (r->terms & DYNAMOS_TGID && r->tgid <= 0)
		return "a tgid is above 0";
	if (r->terms & DYNAMOS_COMM && comm_wrong(r))
		return "comm is a name of 1 to 15 bytes and a NUL";
	if (r->terms & DYNAMOS_UID && r->uid == WORD)
		return "no user has the uid 4294967295";
	if (r->terms & DYNAMOS_GID && r->gid == WORD)
		return "no group has the gid 4294967295";
	if (r->terms & DYNAMOS_CGROUP && !r->cgroup)
		return "a cgroup is named by its folder's inode, above 0";
	if (r->terms & DYNAMOS_CPUS && cpus_empty(r))
		return "the CPU set is empty";
	if (r->terms & DYNAMOS_SHARE && r->share > 65536)
		return "a share is 0 to 65536";
	if (r->terms & DYNAMOS_WINDOW && r->from >= r->until)
		return "a window ends after it begins";
	return (void *)0;
}

static const char *rule_wrong(const struct dynamos_rule *r)
{
	if (r->terms & ~DYNAMOS_TERMS)
		return "it names a term that this revision does not have";
	if (r->choice > 1)
		return "choice is 0 (the older version) or 1 (the new one)";
	if (r->zero)
		return "the reserved field is not zero";
	return value_wrong(r);
}

static int refuse(struct dynamos_refusal *refusal, u32 rule, const char *why)
{
	refusal->rule = rule;
	refusal->why = why;
	return -DYNAMOS_EINVAL;
}

int dynamos_policy_check(const struct dynamos_policy *p, u32 class,
			 struct dynamos_refusal *refusal)
{
	const char *wrong;
	u32 i;

	refusal->rule = DYNAMOS_RULES;
	refusal->why = (void *)0;
	if (class < DYNAMOS_ANY || class > DYNAMOS_TOGETHER)
		return refuse(refusal, DYNAMOS_RULES, "no such class");
	if (p->rules > DYNAMOS_RULES)
		return refuse(refusal, DYNAMOS_RULES, "more than 16 rules");
	if (p->otherwise > 1)
		return refuse(refusal, DYNAMOS_RULES,
			      "otherwise is 0 (the older version) or 1 (the "
			      "new one)");
	for (i = 0; i < p->rules; i++) {
		wrong = rule_wrong(&p->rule[i]);
		if (wrong)
			return refuse(refusal, i, wrong);
	}
	if (class == DYNAMOS_TOGETHER && (p->rules || !p->otherwise))
		return refuse(refusal, DYNAMOS_RULES,
			      "the update's class is together: all tasks take "
			      "it, so give no rules and otherwise 1");
	return 0;
}

u32 dynamos_policy_hash(u32 tgid, u64 key)
{
	u64 x = tgid ^ key;

	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return (x ^ x >> 33) & 0xffff;
}

static u64 word(const char *s)
{
	u64 w;

	__builtin_memcpy(&w, s, sizeof(w));
	return w;
}

/* Adds a test to the rule that begins at `first`: the tests before it lead
 * here where they hold. What it leads to is filled in when that is known. */
static void add(struct dynamos_table *t, u8 source, u16 offset, u64 mask,
		u64 want)
{
	struct dynamos_test *test = &t->test[t->tests++];

	test->source = source;
	test->offset = offset;
	test->mask = mask;
	test->want = want;
	test->yes = t->tests;
}

/* What follows the NUL of a comm is not compared. */
static void add_comm(struct dynamos_table *t, const char *comm, u16 offset)
{
	u64 mask[2] = {0, 0};
	u32 i, end = 0;

	while (comm[end])
		end++;
	for (i = 0; i <= end; i++)
		mask[i / 8] |= 0xffull << i % 8 * 8;
	add(t, DYNAMOS_OF_TASK, offset, mask[0], word(comm) & mask[0]);
	if (mask[1])
		add(t, DYNAMOS_OF_TASK, offset + 8, mask[1],
		    word(comm + 8) & mask[1]);
}

static void add_rule(struct dynamos_table *t, u32 n,
		     const struct dynamos_layout *at)
{
	const struct dynamos_rule *r = &t->policy.rule[n];

	if (r->terms & DYNAMOS_PID)
		add(t, DYNAMOS_OF_TASK, at->pid, WORD, r->pid);
	if (r->terms & DYNAMOS_TGID)
		add(t, DYNAMOS_OF_TASK, at->tgid, WORD, r->tgid);
	if (r->terms & DYNAMOS_UID)
		add(t, DYNAMOS_OF_CREDENTIALS, at->uid, WORD, r->uid);
	if (r->terms & DYNAMOS_GID)
		add(t, DYNAMOS_OF_CREDENTIALS, at->gid, WORD, r->gid);
	if (r->terms & DYNAMOS_COMM)
		add_comm(t, r->comm, at->comm);
	if (r->terms & DYNAMOS_CPUS)
		add(t, DYNAMOS_OF_CPU, n, 0, 0);
	if (r->terms & DYNAMOS_SHARE)
		add(t, DYNAMOS_OF_HASH, 0, 0, r->share);
	if (r->terms & DYNAMOS_WINDOW)
		add(t, DYNAMOS_OF_TIME, 0, r->until - r->from, r->from);
	if (r->terms & DYNAMOS_CGROUP)
		add(t, DYNAMOS_OF_CGROUP, 0, 0, r->cgroup);
}

/* The way in for one context, over the rules that can hold there. */
static u8 build(struct dynamos_table *t, const struct dynamos_layout *at,
		u32 never)
{
	u8 begin = t->tests, first, decision;
	const struct dynamos_policy *p = &t->policy;
	u32 i, j;

	for (i = 0; i < p->rules; i++) {
		decision = p->rule[i].choice ? DYNAMOS_NEW : DYNAMOS_OLD;
		if (p->rule[i].terms & never)
			continue;
		if (!p->rule[i].terms)
			break;
		first = t->tests;
		add_rule(t, i, at);
		t->test[t->tests - 1].yes = decision;
		for (j = first; j < t->tests; j++)
			t->test[j].no = t->tests;
	}
	if (i == p->rules)
		decision = p->otherwise ? DYNAMOS_NEW : DYNAMOS_OLD;
	for (j = begin; j < t->tests; j++)
		if (t->test[j].no == t->tests)
			t->test[j].no = decision;
	return begin < t->tests ? begin : decision;
}

void dynamos_policy_compile(const struct dynamos_policy *policy,
			    const struct dynamos_layout *layout,
			    struct dynamos_table *table)
{
	__builtin_memset(table, 0, sizeof(*table));
	table->policy = *policy;
	table->key = layout->key;
	table->start[0] = build(table, layout, DYNAMOS_TERMS_TASK);
	table->start[1] = build(table, layout, 0);
}
