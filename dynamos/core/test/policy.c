// SPDX-License-Identifier: MIT
/* Which policies are refused and why, and what the others decide. */
#include <stddef.h>
#include <string.h>

#include "../policy.h"
#include "tests/tap.h"

struct credentials {
	u32 before, uid, gid, after;
};

struct task {
	u32 before;
	s32 pid, tgid;
	char comm[16];
	const struct credentials *credentials;
};

static const struct dynamos_layout layout = {
	.numbers = offsetof(struct task, pid),
	.name = offsetof(struct task, comm),
	.credentials = offsetof(struct task, credentials),
	.owner = offsetof(struct credentials, uid),
};

#define KEY 0x5bd1e9955bd1e995ull

static struct dynamos_policy policy;
static struct dynamos_table table;
static struct dynamos_refusal refusal;
static struct task task;
static struct credentials user;
static u32 cpu;
static u64 now, cgroup;
static int asked;
static u32 programs; /* those that say yes, by number */
static const void *given;
static const int this_call;

static int ask_term(const struct dynamos_table *t,
		    const struct dynamos_test *test, const void *call)
{
	const struct dynamos_rule *r = &t->policy.rule[test->rule];
	u32 more = test->more;

	asked++;
	given = call;
	return (!(more & DYNAMOS_PROGRAM) || programs >> r->program & 1) &&
	       (!(more & DYNAMOS_SHARE) ||
		dynamos_policy_hash(
			dynamos_policy_unit(r, task.tgid, user.uid, cgroup),
			t->key) < r->share) &&
	       (!(more & DYNAMOS_WINDOW) ||
		now - r->from < r->until - r->from) &&
	       (!(more & DYNAMOS_CPUS) || dynamos_policy_cpu(r, cpu)) &&
	       (!(more & DYNAMOS_CGROUP) || cgroup == r->cgroup);
}

static void begin_policy(void)
{
	memset(&policy, 0, sizeof(policy));
	memset(&task, 0, sizeof(task));
	memset(&user, 0, sizeof(user));
	task.before = user.before = user.after = 0xffffffff;
	task.pid = 71;
	task.tgid = 70;
	strcpy(task.comm, "tenant");
	task.credentials = &user;
	user.uid = 1000;
	user.gid = 1001;
	cpu = 2;
	now = 5000;
	cgroup = 33;
	asked = 0;
	programs = 0;
	given = NULL;
}

static struct dynamos_rule *add_rule(u32 terms, u32 choice)
{
	struct dynamos_rule *r = &policy.rule[policy.rules++];

	r->terms = terms;
	r->choice = choice;
	return r;
}

static int choose_version(int in_task)
{
	if (dynamos_policy_check(&policy, DYNAMOS_ANY, &refusal))
		return -1;
	dynamos_policy_compile(&policy, KEY, &table);
	return dynamos_policy_choose(&table, layout, in_task, &task, ask_term,
				     &this_call);
}

static void expect_refusal(u32 class, u32 at, const char *why)
{
	int err = dynamos_policy_check(&policy, class, &refusal);

	if (!tap_ok(err == -LINUX_EINVAL && refusal.rule == at && refusal.why &&
			    strstr(refusal.why, why),
		    "policy: refused: %s", why))
		printf("# %d rule %u: %s\n", err, refusal.rule,
		       refusal.why ? refusal.why : "");
	begin_policy();
}

static void test_wholes(void)
{
	begin_policy();
	expect_refusal(0, DYNAMOS_RULES, "class");
	expect_refusal(DYNAMOS_TOGETHER + 1, DYNAMOS_RULES, "class");
	policy.rules = DYNAMOS_RULES + 1;
	expect_refusal(DYNAMOS_ANY, DYNAMOS_RULES, "16 rules");
	policy.otherwise = 2;
	expect_refusal(DYNAMOS_ANY, DYNAMOS_RULES, "otherwise");
	add_rule(0, 1);
	policy.otherwise = 1;
	expect_refusal(DYNAMOS_TOGETHER, DYNAMOS_RULES, "together");
	expect_refusal(DYNAMOS_TOGETHER, DYNAMOS_RULES, "together");
	policy.otherwise = 1;
	TAP(!dynamos_policy_check(&policy, DYNAMOS_TOGETHER, &refusal));
	TAP(!refusal.why);
}

static void test_values(void)
{
	begin_policy();
	add_rule(DYNAMOS_TERMS + 1, 1);
	expect_refusal(DYNAMOS_ANY, 0, "term");
	add_rule(0, 1);
	add_rule(0, 2);
	expect_refusal(DYNAMOS_ANY, 1, "choice");
	add_rule(DYNAMOS_PID, 1)->pid = 1;
	policy.rule[0].per = DYNAMOS_PER_UID;
	expect_refusal(DYNAMOS_ANY, 0, "has no share");
	add_rule(DYNAMOS_SHARE, 1)->per = DYNAMOS_PERS;
	expect_refusal(DYNAMOS_ANY, 0, "users (1) or cgroups");
	add_rule(DYNAMOS_PID, 1);
	expect_refusal(DYNAMOS_ANY, 0, "pid");
	add_rule(DYNAMOS_PROGRAM, 1)->program = -1;
	expect_refusal(DYNAMOS_ANY, 0, "descriptor");
	add_rule(DYNAMOS_PROGRAM | DYNAMOS_PID, 1)->pid = 1;
	expect_refusal(DYNAMOS_ANY, 0, "has no pid");
	add_rule(DYNAMOS_TGID, 1)->tgid = -1;
	expect_refusal(DYNAMOS_ANY, 0, "tgid");
	add_rule(DYNAMOS_COMM, 1);
	expect_refusal(DYNAMOS_ANY, 0, "comm");
	memset(add_rule(DYNAMOS_COMM, 1)->comm, 'x', 16);
	expect_refusal(DYNAMOS_ANY, 0, "comm");
	add_rule(DYNAMOS_UID, 1)->uid = 0xffffffff;
	expect_refusal(DYNAMOS_ANY, 0, "uid");
	add_rule(DYNAMOS_GID, 1)->gid = 0xffffffff;
	expect_refusal(DYNAMOS_ANY, 0, "gid");
	add_rule(DYNAMOS_CGROUP, 1);
	expect_refusal(DYNAMOS_ANY, 0, "cgroup");
	add_rule(DYNAMOS_CPUS, 1);
	expect_refusal(DYNAMOS_ANY, 0, "CPU");
	add_rule(DYNAMOS_SHARE, 1)->share = 65537;
	expect_refusal(DYNAMOS_ANY, 0, "share");
	add_rule(DYNAMOS_WINDOW, 1);
	expect_refusal(DYNAMOS_ANY, 0, "window");
}

static int policy_taken(void)
{
	int err = dynamos_policy_check(&policy, DYNAMOS_ANY, &refusal);

	begin_policy();
	return !err;
}

/* Values of terms that a rule does not have say nothing. */
static void test_others(void)
{
	struct dynamos_rule *r = add_rule(DYNAMOS_PID, 1);

	r->pid = 1;
	r->tgid = -1;
	r->uid = r->gid = 0xffffffff;
	r->share = 65537;
	memset(r->comm, 'x', 16);
	TAP(policy_taken());
	add_rule(DYNAMOS_TGID, 1)->tgid = 1;
	TAP(policy_taken());
	add_rule(DYNAMOS_CPUS, 1)->cpus[DYNAMOS_CPU_WORDS - 1] = 1;
	TAP(policy_taken());
}

/* The share of a task is the same in every boot: MurmurHash3's last step. */
static void test_hash(void)
{
	TAP(dynamos_policy_hash(1, 0) == 0xcb2c);
	TAP(dynamos_policy_hash(1, 2) == 0xd8ce);
	TAP(dynamos_policy_hash(0, 0x0123456789abcdef) == 0x2cea);
}

/* The last letter of the longest name counts. */
static void test_long_names(void)
{
	begin_policy();
	strcpy(add_rule(DYNAMOS_COMM, 1)->comm, "name-of-fifteen");
	strcpy(task.comm, "name-of-fifteen");
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	task.comm[14]++;
	TAP(choose_version(1) == 0);
}

/* Each term holds for what begin_policy() set, and not for anything else. */
static void test_terms(void)
{
	begin_policy();
	add_rule(DYNAMOS_PID, 1)->pid = 71;
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	policy.rule[0].pid = 70;
	TAP(choose_version(1) == 0);
	begin_policy();
	add_rule(DYNAMOS_TGID, 1)->tgid = 70;
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	policy.rule[0].tgid = 71;
	TAP(choose_version(1) == 0);
	begin_policy();
	add_rule(DYNAMOS_UID, 1)->uid = 1000;
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	policy.rule[0].uid = 1001;
	TAP(choose_version(1) == 0);
	begin_policy();
	add_rule(DYNAMOS_GID, 1)->gid = 1001;
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	policy.rule[0].gid = 1000;
	TAP(choose_version(1) == 0);
	begin_policy();
	add_rule(DYNAMOS_CGROUP, 1)->cgroup = 33;
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	policy.rule[0].cgroup = 34;
	TAP(choose_version(1) == 0);
}

static void test_names(void)
{
	begin_policy();
	strcpy(add_rule(DYNAMOS_COMM, 1)->comm, "tenant");
	TAP(choose_version(1) == 1 && choose_version(0) == 0);
	strcpy(task.comm + 7, "rest");
	TAP(choose_version(1) == 1);
	strcpy(task.comm, "tenants");
	TAP(choose_version(1) == 0);
	strcpy(task.comm, "tenan");
	TAP(choose_version(1) == 0);
	strcpy(policy.rule[0].comm, "fifteen letters");
	strcpy(task.comm, "fifteen letters");
	TAP(choose_version(1) == 1);
	strcpy(task.comm, "fifteen letter");
	TAP(choose_version(1) == 0);
	strcpy(policy.rule[0].comm, "eight888");
	strcpy(task.comm, "eight888");
	TAP(choose_version(1) == 1);
	strcpy(task.comm, "eight8889");
	TAP(choose_version(1) == 0);
}

/* The only two terms that hold in an interrupt as well. */
static void test_places(void)
{
	struct dynamos_rule *r;

	begin_policy();
	add_rule(DYNAMOS_CPUS, 1)->cpus[0] = 4;
	TAP(choose_version(1) == 1 && choose_version(0) == 1);
	cpu = 66;
	TAP(choose_version(1) == 0 && choose_version(0) == 0);
	cpu = 4096 + 2;
	TAP(choose_version(1) == 0);
	begin_policy();
	r = add_rule(DYNAMOS_WINDOW, 1);
	r->from = 5000;
	r->until = 5001;
	TAP(choose_version(1) == 1 && choose_version(0) == 1);
	now = 4999;
	TAP(choose_version(1) == 0);
	now = 5001;
	TAP(choose_version(1) == 0);
}

/* A set is what user space writes: bit n % 8 of byte n / 8 is CPU n. */
static void test_cpus(void)
{
	struct dynamos_rule *r;
	u32 n, wrong = 0;
	u8 *byte;

	begin_policy();
	r = add_rule(DYNAMOS_CPUS, 1);
	byte = (u8 *)r->cpus;
	for (n = 0; n < 4096; n++) {
		byte[n / 8] = 1 << n % 8;
		wrong += !dynamos_policy_cpu(r, n);
		byte[n / 8] = ~byte[n / 8];
		wrong += !!dynamos_policy_cpu(r, n);
		byte[n / 8] = 0;
	}
	memset(r->cpus, 0xff, sizeof(r->cpus));
	tap_ok(!wrong, "policy: each CPU is one bit of a set");
	tap_ok(dynamos_policy_cpu(r, 4095) && !dynamos_policy_cpu(r, 4096) &&
		       !dynamos_policy_cpu(r, ~0u),
	       "policy: a set holds no CPU above 4095");
}

static u32 count_held(u32 share)
{
	u32 i, n = 0;

	policy.rule[0].share = share;
	for (i = 1; i <= 20000; i++) {
		task.tgid = i;
		n += choose_version(1) == 1;
	}
	return n;
}

/* A process that a share took in stays in when the share grows. */
static void test_shares(void)
{
	u32 i, lost = 0;
	int small;

	begin_policy();
	add_rule(DYNAMOS_SHARE, 1);
	TAP(count_held(0) == 0);
	TAP(count_held(65536) == 20000);
	i = count_held(6554);
	tap_ok(i > 1700 && i < 2300,
	       "policy: 10 %% select %u of 20000 processes", i);
	for (i = 1; i <= 2000; i++) {
		task.tgid = i;
		policy.rule[0].share = 6554;
		small = choose_version(1);
		policy.rule[0].share = 20000;
		lost += small == 1 && choose_version(1) != 1;
	}
	TAP(!lost);
	TAP(choose_version(0) == 0);
}

/* A share of users or cgroups: all processes of one have the same version. */
static void test_units(void)
{
	u32 i, n, mixed, held;
	u32 per;

	for (per = DYNAMOS_PER_UID; per < DYNAMOS_PERS; per++) {
		begin_policy();
		add_rule(DYNAMOS_SHARE, 1)->per = per;
		policy.rule[0].share = 6554;
		for (mixed = held = i = 0; i < 4000; i++) {
			cgroup = per == DYNAMOS_PER_CGROUP ? i + (1ull << 32)
							   : 33;
			user.uid = per == DYNAMOS_PER_UID ? i : 1000;
			for (n = task.tgid = 0; task.tgid < 16; task.tgid++)
				n += choose_version(1) == 1;
			mixed += n % 16 != 0;
			held += n / 16;
		}
		tap_ok(!mixed && held > 300 && held < 500,
		       "policy: %u of 4000 units of kind %u, %u mixed", held,
		       per, mixed);
		TAP(choose_version(0) == 0);
	}
}

static void test_order(void)
{
	struct dynamos_rule *r;

	begin_policy();
	TAP(choose_version(1) == 0 && choose_version(0) == 0);
	policy.otherwise = 1;
	TAP(choose_version(1) == 1 && choose_version(0) == 1);
	TAP(!table.task[0].more && table.task[0].choice);
	add_rule(DYNAMOS_UID, 0)->uid = 1000;
	TAP(choose_version(1) == 0 && choose_version(0) == 1);
	add_rule(0, 1);
	add_rule(0, 0);
	TAP(choose_version(1) == 0 && choose_version(0) == 1);
	user.uid = 0;
	TAP(choose_version(1) == 1);

	begin_policy();
	r = add_rule(DYNAMOS_UID | DYNAMOS_GID | DYNAMOS_TGID | DYNAMOS_CGROUP,
		     1);
	r->uid = 1000;
	r->gid = 1001;
	r->tgid = 69;
	r->cgroup = 33;
	add_rule(DYNAMOS_PID, 1)->pid = 71;
	TAP(choose_version(1) == 1 && !asked);
	task.pid = 72;
	TAP(choose_version(1) == 0);
	r->tgid = 70;
	TAP(choose_version(1) == 1 && asked == 1);
}

/* The largest policy there is fits, and its last rule decides. */
static void test_max(void)
{
	struct dynamos_rule *r;
	u32 i;

	begin_policy();
	for (i = 0; i < DYNAMOS_RULES; i++) {
		r = add_rule(DYNAMOS_TERMS & ~DYNAMOS_PROGRAM, 1);
		r->pid = 71;
		r->tgid = 70;
		strcpy(r->comm, "tenant and more");
		strcpy(task.comm, r->comm);
		r->uid = 1000;
		r->gid = 1001;
		r->cgroup = i == DYNAMOS_RULES - 1 ? 33 : 34;
		r->cpus[0] = 4;
		r->share = 65536;
		r->until = 6000;
	}
	TAP(choose_version(1) == 1 && asked == DYNAMOS_RULES);
	TAP(table.task[DYNAMOS_RULES - 1].choice == 1);
	TAP(choose_version(0) == 0);
	cgroup = 35;
	TAP(choose_version(1) == 0);
}

/* A program is asked with the call, if the other terms hold, and in task
 * context; its rule precedes those behind it. */
static void test_programs(void)
{
	begin_policy();
	TAP(!dynamos_policy_programs(&policy));
	add_rule(DYNAMOS_UID, 1)->uid = 1;
	add_rule(DYNAMOS_PROGRAM | DYNAMOS_UID, 0)->uid = 1000;
	policy.rule[1].program = 3;
	add_rule(DYNAMOS_PROGRAM, 1)->program = 0;
	TAP(dynamos_policy_programs(&policy));
	TAP(choose_version(1) == 0 && asked == 2 && given == &this_call);
	programs = 1u << 0;
	TAP(choose_version(1) == 1);
	programs |= 1u << 3;
	asked = 0;
	TAP(choose_version(1) == 0 && asked == 1);
	user.uid = 1001;
	asked = 0;
	TAP(choose_version(1) == 1 && asked == 1);
	asked = 0;
	TAP(choose_version(0) == 0 && !asked);
	policy.rules = 1;
	TAP(!dynamos_policy_programs(&policy)); /* behind the last */
}

/* Only the end of a window may differ, in each rule. */
static void test_extends(void)
{
	static struct dynamos_policy earlier;
	struct dynamos_rule *rule;

	begin_policy();
	add_rule(DYNAMOS_UID, 0)->uid = 7;
	rule = add_rule(DYNAMOS_WINDOW, 1);
	rule->until = 100;
	earlier = policy;
	TAP(dynamos_policy_extends(&policy, &earlier));
	rule->until = 90;
	TAP(dynamos_policy_extends(&policy, &earlier));
	rule->from = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	rule->from = 0;
	rule->comm[0] = 'a';
	TAP(!dynamos_policy_extends(&policy, &earlier));
	rule->comm[0] = 0;
	rule->program = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	rule->program = 0;
	rule->cpus[DYNAMOS_CPU_WORDS - 1] = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	rule->cpus[DYNAMOS_CPU_WORDS - 1] = 0;
	policy.rule[0].choice = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	policy.rule[0].choice = 0;
	policy.otherwise = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	policy.otherwise = 0;
	policy.rules = 1;
	TAP(!dynamos_policy_extends(&policy, &earlier));
	policy.rules = 2;
	policy.rule[2].uid = 1; /* behind the last */
	TAP(dynamos_policy_extends(&policy, &earlier));
}

/* A window in any rule, and none behind the last. */
static void test_ends(void)
{
	u32 i;

	begin_policy();
	policy.rule[0].terms = DYNAMOS_WINDOW; /* behind the last */
	TAP(!dynamos_policy_ends(&policy));
	for (i = 0; i < DYNAMOS_RULES; i++) {
		begin_policy();
		while (policy.rules < DYNAMOS_RULES)
			add_rule(DYNAMOS_TERMS & ~DYNAMOS_WINDOW, 1);
		TAP(!dynamos_policy_ends(&policy));
		policy.rule[i].terms = DYNAMOS_WINDOW | DYNAMOS_UID;
		policy.rule[i].choice = 0;
		TAP(dynamos_policy_ends(&policy));
	}
}

int main(void)
{
	test_wholes();
	test_values();
	test_others();
	test_hash();
	test_long_names();
	test_terms();
	test_names();
	test_places();
	test_cpus();
	test_shares();
	test_units();
	test_order();
	test_max();
	test_programs();
	test_extends();
	test_ends();
	return tap_done();
}
