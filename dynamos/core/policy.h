/* SPDX-License-Identifier: MIT */
/*
 * A policy is checked, then compiled into a table of tests, one for each rule.
 * A test compares four words in place, whatever terms the rule has: one word
 * for pid and tgid, two for the name, one for uid and gid. Terms that are not
 * in these words are evaluated by a call, and only if the words match. The last
 * test always matches.
 *
 * There are two tables: the one for calls outside task context omits rules
 * about tasks.
 */
#ifndef DYNAMOS_POLICY_H
#define DYNAMOS_POLICY_H

#include "base/errno.h"
#include <skep/dynamos.h>

/* Offsets of the values: pid and tgid are the halves of one word of the task,
 * uid and gid the halves of one word of its credentials. */
struct dynamos_layout {
	u32 numbers, name, credentials, owner;
};

enum {
	DYNAMOS_OF_NUMBERS,
	DYNAMOS_OF_NAME,
	DYNAMOS_OF_NAME_2,
	DYNAMOS_OF_OWNER,
	DYNAMOS_WORDS
};

struct dynamos_test {
	u64 mask[DYNAMOS_WORDS], want[DYNAMOS_WORDS];
	u16 more; /* terms that need a call */
	u8 rule, choice;
	u32 zero;
};

#define DYNAMOS_TESTS (DYNAMOS_RULES + 1)

struct dynamos_table {
	struct dynamos_test task[DYNAMOS_TESTS], outside[DYNAMOS_TESTS];
	u64 key; /* makes the sticky share differ on each boot */
	struct dynamos_policy policy;
};

struct dynamos_refusal {
	u32 rule; /* from 0; DYNAMOS_RULES: the policy as a whole */
	const char *why;
};

/* Returns 0, or -EINVAL and the reason in `refusal`. */
int dynamos_policy_check(const struct dynamos_policy *policy, u32 class,
			 struct dynamos_refusal *refusal);

/* 1 if a policy equals an earlier one, except that windows may end at other
 * times. */
int dynamos_policy_extends(const struct dynamos_policy *policy,
			   const struct dynamos_policy *earlier);

/* 1 if a policy has a window, after which it may choose otherwise. */
int dynamos_policy_ends(const struct dynamos_policy *policy);

/* 1 if a rule of a policy asks a program. */
int dynamos_policy_programs(const struct dynamos_policy *policy);

/* The policy must have been checked. */
void dynamos_policy_compile(const struct dynamos_policy *policy, u64 key,
			    struct dynamos_table *table);

/* The place of a process, user or cgroup in the sticky share, 0 to 65535:
 * constant while the key is. */
u32 dynamos_policy_hash(u64 unit, u64 key);

/* What a rule's share is of: the task's process, effective user or cgroup. */
static inline u64 dynamos_policy_unit(const struct dynamos_rule *rule, u32 tgid,
				      u32 uid, u64 cgroup)
{
	if (rule->per == DYNAMOS_PER_UID)
		return uid;
	return rule->per == DYNAMOS_PER_CGROUP ? cgroup : tgid;
}

static inline int dynamos_policy_cpu(const struct dynamos_rule *rule, u32 cpu)
{
	return cpu < DYNAMOS_CPU_WORDS * 64 &&
	       rule->cpus[cpu / 64] >> cpu % 64 & 1;
}

static inline __attribute__((always_inline)) int
dynamos_policy_differs(const struct dynamos_test *test, u32 n, const void *word)
{
	u64 is;

	__builtin_memcpy(&is, word, sizeof(is));
	return ((is ^ test->want[n]) & test->mask[n]) != 0;
}

/* Whether the words match. Inline, because it runs at each call of a changed
 * function with a constant layout. The credentials are reached through the
 * task, so that one register is enough. */
static inline __attribute__((always_inline)) int
dynamos_policy_agrees(const struct dynamos_test *test,
		      const struct dynamos_layout at, const void *task)
{
	const u8 *from = task;

	if (dynamos_policy_differs(test, DYNAMOS_OF_NUMBERS,
				   from + at.numbers) ||
	    dynamos_policy_differs(test, DYNAMOS_OF_NAME, from + at.name) ||
	    dynamos_policy_differs(test, DYNAMOS_OF_NAME_2, from + at.name + 8))
		return 0;
	__builtin_memcpy(&from, from + at.credentials, sizeof(from));
	return !dynamos_policy_differs(test, DYNAMOS_OF_OWNER, from + at.owner);
}

/* 1: the new version. Calls `asked` for a test whose terms are not all in the
 * words, with what it was given of the call. */
static inline __attribute__((always_inline)) int dynamos_policy_choose(
	const struct dynamos_table *table, const struct dynamos_layout at,
	int in_task, const void *task,
	int (*asked)(const struct dynamos_table *table,
		     const struct dynamos_test *test, const void *call),
	const void *call)
{
	const struct dynamos_test *test;

	test = in_task ? table->task : table->outside;
	while (!dynamos_policy_agrees(test, at, task) ||
	       (test->more && !asked(table, test, call)))
		test++;
	return test->choice;
}

#endif
