// SPDX-License-Identifier: MIT
/*
 * Any bytes as a policy: what is accepted becomes a table that ends, and
 * decides for any task as a plain reading of the rules does.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../policy.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#define KEY 77

struct facts {
	s32 pid, tgid;
	char comm[16];
	u32 uid, gid;
	u64 now, cgroup;
	u32 cpu, after;
	const struct facts *credentials; /* the same */
};

static struct facts facts;

static int rule_holds(const struct dynamos_rule *r, u64 key, int in_task)
{
	u32 t = r->terms;

	if (t & DYNAMOS_TERMS_TASK && !in_task)
		return 0;
	return (!(t & DYNAMOS_PID) || r->pid == facts.pid) &&
	       (!(t & DYNAMOS_TGID) || r->tgid == facts.tgid) &&
	       (!(t & DYNAMOS_COMM) || !strncmp(r->comm, facts.comm, 16)) &&
	       (!(t & DYNAMOS_UID) || r->uid == facts.uid) &&
	       (!(t & DYNAMOS_GID) || r->gid == facts.gid) &&
	       (!(t & DYNAMOS_PROGRAM) || (u32)r->program == facts.cpu) &&
	       (!(t & DYNAMOS_CGROUP) || r->cgroup == facts.cgroup) &&
	       (!(t & DYNAMOS_CPUS) || dynamos_policy_cpu(r, facts.cpu)) &&
	       (!(t & DYNAMOS_SHARE) ||
		dynamos_policy_hash(r->per == DYNAMOS_PER_UID ? facts.uid
				    : r->per == DYNAMOS_PER_CGROUP
					    ? facts.cgroup
					    : (u32)facts.tgid,
				    key) < r->share) &&
	       (!(t & DYNAMOS_WINDOW) ||
		(facts.now >= r->from && facts.now < r->until));
}

static int expect_choice(const struct dynamos_policy *p, u64 key, int in_task)
{
	u32 i;

	for (i = 0; i < p->rules; i++)
		if (rule_holds(&p->rule[i], key, in_task))
			return p->rule[i].choice;
	return p->otherwise;
}

static int ask_term(const struct dynamos_table *t,
		    const struct dynamos_test *test, const void *call)
{
	struct dynamos_rule r = t->policy.rule[test->rule];

	if (call != &facts)
		abort();
	r.terms &= test->more;
	return rule_holds(&r, t->key, 1);
}

static int table_ends(const struct dynamos_test *test)
{
	u32 i, n;
	u64 mask;

	for (i = 0; i < DYNAMOS_TESTS; i++) {
		mask = test[i].more;
		for (n = 0; n < DYNAMOS_WORDS; n++)
			mask |= test[i].mask[n];
		if (!mask)
			return 1;
	}
	return 0;
}

static void check_table(const struct dynamos_table *t)
{
	if (!table_ends(t->task) || !table_ends(t->outside))
		abort();
}

/* Rules are large and mostly CPU maps: the input fills their heads. */
static void fill_policy(struct dynamos_policy *p, const u8 *data, size_t size)
{
	size_t head = offsetof(struct dynamos_rule, cpus) + 8;
	u32 i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < DYNAMOS_RULES && size >= head; i++) {
		memcpy(&p->rule[i], data, head);
		p->rule[i].terms &= 2047;
		data += head;
		size -= head;
	}
	p->rules = i;
	p->otherwise = size && *data & 1;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const struct dynamos_layout layout = {
		.numbers = offsetof(struct facts, pid),
		.name = offsetof(struct facts, comm),
		.credentials = offsetof(struct facts, credentials),
		.owner = offsetof(struct facts, uid),
	};
	static struct dynamos_policy policy;
	static struct dynamos_table table;
	struct dynamos_refusal refusal;
	int in_task, err;
	u32 i;

	if (size < sizeof(facts))
		return 0;
	memcpy(&facts, data, sizeof(facts));
	facts.credentials = &facts;
	facts.comm[15] = 0;
	fill_policy(&policy, data + sizeof(facts), size - sizeof(facts));
	/* A rule that speaks of this very task is what chance seldom gives. */
	for (i = 0; i < policy.rules; i++)
		if (policy.rule[i].per == DYNAMOS_PERS) {
			policy.rule[i].per = 0;
			policy.rule[i].pid = facts.pid;
			policy.rule[i].uid = facts.uid;
			memcpy(policy.rule[i].comm, facts.comm, 16);
		}
	err = dynamos_policy_check(&policy, DYNAMOS_ANY, &refusal);
	if (!err != !refusal.why)
		abort();
	if (err)
		return 0;
	dynamos_policy_compile(&policy, KEY, &table);
	check_table(&table);
	for (in_task = 0; in_task < 2; in_task++)
		if (dynamos_policy_choose(&table, layout, in_task, &facts,
					  ask_term, &facts) !=
		    expect_choice(&policy, KEY, in_task))
			abort();
	return 0;
}
