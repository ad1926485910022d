/* SPDX-License-Identifier: MIT */
/*
 * A policy is checked, then turned into a table of tests: a chain of
 * comparisons, each with the test that follows a yes and the one that follows
 * a no. Most compare one word of the task or of its credentials in place, so
 * nothing is gathered that no rule asks for; the rest asks a function.
 *
 * There are two ways in: outside task context the rules that speak of a task
 * are not on the way.
 */
#ifndef DYNAMOS_POLICY_H
#define DYNAMOS_POLICY_H

#include <skep/dynamos.h>

#define DYNAMOS_EINVAL 22

/* Where the facts lie in a task, and in its credentials; and what makes the
 * sticky share another one on each boot. */
struct dynamos_layout {
	u16 pid, tgid, comm;
	u16 uid, gid;
	u64 key;
};

enum dynamos_source {
	DYNAMOS_OF_TASK, /* a word at `offset` */
	DYNAMOS_OF_CREDENTIALS,
	DYNAMOS_OF_HASH,  /* `want` of 65536 processes; asked from here on */
	DYNAMOS_OF_TIME,  /* `mask` ns from `want` */
	DYNAMOS_OF_CPU,	  /* in the map of rule `offset` */
	DYNAMOS_OF_CGROUP /* `want` or below it */
};

#define DYNAMOS_FIRST_ASKED DYNAMOS_OF_HASH

#define DYNAMOS_OLD 254 /* instead of a next test: the decision */
#define DYNAMOS_NEW 255

struct dynamos_test {
	u64 mask, want;
	u16 offset;
	u8 source;
	u8 yes, no;
	u8 zero[3];
};

#define DYNAMOS_TESTS (DYNAMOS_RULES * 12)

struct dynamos_table {
	u8 start[2]; /* outside task context, in a task */
	u8 tests;
	u64 key;
	struct dynamos_policy policy;
	struct dynamos_test test[DYNAMOS_TESTS];
};

struct dynamos_refusal {
	u32 rule; /* from 0; DYNAMOS_RULES: the policy as a whole */
	const char *why;
};

/* 0 or -EINVAL and the refusal. */
int dynamos_policy_check(const struct dynamos_policy *policy, u32 class,
			 struct dynamos_refusal *refusal);

/* A policy that was checked. */
void dynamos_policy_compile(const struct dynamos_policy *policy,
			    const struct dynamos_layout *layout,
			    struct dynamos_table *table);

/* Of 65536, the same for a process as long as the key stays. */
u32 dynamos_policy_hash(u32 tgid, u64 key);

static inline int dynamos_policy_cpu(const struct dynamos_rule *rule, u32 cpu)
{
	return cpu < DYNAMOS_CPU_WORDS * 64 &&
	       rule->cpus[cpu / 64] >> cpu % 64 & 1;
}

/* 1: the new version. Asked is called for tests from DYNAMOS_FIRST_ASKED on. It
 * is inline because it runs at each call of a changed function. */
static inline __attribute__((always_inline)) int
dynamos_policy_choose(const struct dynamos_table *table, int in_task,
		      const void *task, const void *credentials,
		      int (*asked)(const struct dynamos_table *table,
				   const struct dynamos_test *test))
{
	const struct dynamos_test *test;
	u32 at = table->start[in_task];
	const u8 *base;
	u64 word;
	int yes;

	while (at < DYNAMOS_OLD) {
		test = &table->test[at];
		if (__builtin_expect(test->source < DYNAMOS_FIRST_ASKED, 1)) {
			base = test->source ? credentials : task;
			__builtin_memcpy(&word, base + test->offset, 8);
			yes = (word & test->mask) == test->want;
		} else {
			yes = asked(table, test);
		}
		at = yes ? test->yes : test->no;
	}
	return at & 1;
}

#endif
