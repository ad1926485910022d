// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which version a call takes, for all classes.
 *
 * Class any: each call asks the policy's table. Class task: a task's first call
 * to a group (the functions of an update) asks the table and stores the answer
 * in a frame on its own kernel stack. Until that call returns, all calls by
 * that task find the frame and take the same answer. An update is drained when
 * no frame refers to it: the outermost call may be of a function without a new
 * version, and may call functions that have one. Frames are in hash buckets, by
 * task. Only task context uses them, so a bucket is locked with interrupts
 * enabled, and not while a policy is asked: its program may call a function of
 * the group.
 *
 * A lock is a bit, because the kernel's own lock functions could be the ones
 * that are changed. For the same reason nothing here can be traced (Kbuild).
 *
 * Context: dynamos_version_ask() and what it calls run where the hooked
 * function is called, with preemption off. dynamos_call_end() runs there too,
 * with preemption as the caller has it. dynamos_group_forget() runs in a task
 * that ends or oopses. Creating, checking and freeing run in process context
 * under dynamos_lock.
 */
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/list_bl.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include <dynamos/core/health.h>

#include "internal.h"
#include "layout.h"

#define BUCKET_BITS 8

struct dynamos_group {
	u64 number;
	bool stopped;	 /* no task is admitted to the new version */
	atomic64_t held; /* frames of tasks that take the new version */
};

/* The link is part of the table, so that retiring a table needs no
 * allocation. */
struct linked_table {
	struct list_head link;
	struct dynamos_programs programs;
	struct dynamos_table table;
};

static struct hlist_bl_head buckets[1 << BUCKET_BITS];
static u64 groups;	/* the last group's number; dynamos_lock */
static u64 hash_secret; /* key of the sticky share, random at each load */

static bool in_cgroup(u64 id)
{
	struct cgroup *group = task_dfl_cgroup(current);
	int i;

	for (i = group->level; i >= 0; i--)
		if (cgroup_id(group->ancestors[i]) == id)
			return true;
	return false;
}

static bool in_window(const struct dynamos_rule *rule)
{
	return ktime_get_boot_fast_ns() - rule->from < rule->until - rule->from;
}

static bool in_share(const struct dynamos_rule *rule, u64 key)
{
	u64 unit = dynamos_policy_unit(rule, current->tgid,
				       __kuid_val(current_euid()),
				       cgroup_id(task_dfl_cgroup(current)));

	return dynamos_policy_hash(unit, key) < rule->share;
}

/* A task's cgroup is not freed while preemption is off. The program comes last:
 * it is not asked about calls that other terms exclude. */
static int ask_table(const struct dynamos_table *table,
		     const struct dynamos_test *test, const void *call)
{
	const struct dynamos_rule *rule = &table->policy.rule[test->rule];
	u32 more = test->more;

	if (more & DYNAMOS_CPUS &&
	    !dynamos_policy_cpu(rule, raw_smp_processor_id()))
		return false;
	if (more & DYNAMOS_SHARE && !in_share(rule, table->key))
		return false;
	if (more & DYNAMOS_WINDOW && !in_window(rule))
		return false;
	if (more & DYNAMOS_CGROUP && !in_cgroup(rule->cgroup))
		return false;
	return !(more & DYNAMOS_PROGRAM) ||
	       dynamos_program_ask(
		       container_of(table, struct linked_table, table)
			       ->programs.of[test->rule],
		       call);
}

bool dynamos_policy_ask(const struct dynamos_version *version,
			const unsigned long *args)
{
	const struct dynamos_table *table = READ_ONCE(version->table);
	const struct dynamos_program_call call = {version, args};

	return dynamos_policy_choose(table, dynamos_layout, in_task(), current,
				     ask_table, &call);
}

void dynamos_call_hold(struct dynamos_call *call)
{
	if (call->flags & DYNAMOS_CALL_HELD)
		return;
	call->flags |= DYNAMOS_CALL_HELD;
	call->frames = call->ends = 0;
}

static struct hlist_bl_head *bucket_of(const struct task_struct *task)
{
	return &buckets[hash_ptr(task, BUCKET_BITS)];
}

static struct dynamos_frame *find_frame(struct hlist_bl_head *bucket, u64 group)
{
	struct dynamos_frame *frame;
	struct hlist_bl_node *node;

	hlist_bl_for_each_entry(frame, node, bucket, link)
		if (frame->task == current && frame->group == group)
			return frame;
	return NULL;
}

/* The outermost call: its answer holds for all calls within it. */
static bool push_frame(struct dynamos_version *version,
		       struct hlist_bl_head *bucket, struct dynamos_call *call,
		       const unsigned long *args)
{
	struct dynamos_group *group = version->update->group;
	bool wanted = dynamos_policy_ask(version, args);
	struct dynamos_frame *frame;

	dynamos_call_hold(call);
	skep_assert(call->frames < DYNAMOS_FRAMES); /* room_for() refuses */
	if (call->frames == DYNAMOS_FRAMES)
		return false;
	frame = &call->frame[call->frames++];
	frame->task = current;
	frame->group = group->number;
	frame->held = NULL;
	if (wanted && !READ_ONCE(group->stopped)) {
		frame->held = group;
		atomic64_inc(&group->held);
	}
	hlist_bl_lock(bucket);
	hlist_bl_add_head(&frame->link, bucket);
	hlist_bl_unlock(bucket);
	return frame->held;
}

/* The caller holds the bucket's lock. The group may be freed right
 * afterwards. */
static void pop_frame(struct dynamos_frame *frame)
{
	hlist_bl_del(&frame->link);
	if (frame->held)
		atomic64_dec(&frame->held->held);
}

static bool ask_task(struct dynamos_version *version, struct dynamos_call *call,
		     const unsigned long *args)
{
	struct hlist_bl_head *bucket = bucket_of(current);
	const struct dynamos_frame *frame;
	bool take;

	if (!in_task())
		return false;
	hlist_bl_lock(bucket);
	frame = find_frame(bucket, version->update->group->number);
	take = frame && frame->held;
	hlist_bl_unlock(bucket);
	return frame ? take : push_frame(version, bucket, call, args);
}

bool dynamos_version_ask(struct dynamos_version *version,
			 struct dynamos_call *call, const unsigned long *args)
{
	if (version->update->class == DYNAMOS_OBJECT)
		return dynamos_objects_ask(version, call, args);
	return ask_task(version, call, args);
}

static void pop_frames(struct dynamos_call *call)
{
	struct hlist_bl_head *bucket = bucket_of(current);
	u32 i;

	if (!call->frames)
		return;
	hlist_bl_lock(bucket);
	for (i = 0; i < call->frames; i++)
		pop_frame(&call->frame[i]);
	hlist_bl_unlock(bucket);
}

static void tell_time(struct dynamos_version *version, u64 began)
{
	u64 ns = ktime_get_mono_fast_ns() - began;
	u32 bucket = dynamos_health_bucket(ns);

	this_cpu_inc(version->tally->sampled);
	this_cpu_inc(version->tally->latency[bucket]);
}

void dynamos_call_end(struct dynamos_version *version,
		      struct dynamos_call *call, unsigned long result)
{
	if (call->flags & DYNAMOS_CALL_TIMED)
		tell_time(version, call->began);
	if (call->flags & DYNAMOS_CALL_HELD) {
		pop_frames(call);
		dynamos_objects_end(call);
	}
}

/* When a task ends, its stack and the frames on it are freed. */
void dynamos_group_forget(struct task_struct *task)
{
	struct hlist_bl_head *bucket = bucket_of(task);
	struct hlist_bl_node *node, *next;
	struct dynamos_frame *frame;

	if (hlist_bl_empty(bucket))
		return;
	hlist_bl_lock(bucket);
	hlist_bl_for_each_entry_safe(frame, node, next, bucket, link)
		if (frame->task == task)
			pop_frame(frame);
	hlist_bl_unlock(bucket);
}

int dynamos_policy_allowed(const struct dynamos_policy *policy, u32 class,
			   char *why, size_t room)
{
	struct dynamos_refusal refusal;
	int err = dynamos_policy_check(policy, class, &refusal);

	if (err && refusal.rule < DYNAMOS_RULES)
		snprintf(why, room, "rule %u: %s", refusal.rule + 1,
			 refusal.why);
	else if (err)
		snprintf(why, room, "policy: %s", refusal.why);
	return err;
}

struct dynamos_table *dynamos_table_make(const struct dynamos_policy *policy,
					 struct dynamos_programs *programs)
{
	struct linked_table *t = kvzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	dynamos_policy_compile(policy, hash_secret, &t->table);
	t->programs = *programs;
	memset(programs, 0, sizeof(*programs));
	return &t->table;
}

void dynamos_table_free(struct dynamos_table *table)
{
	struct linked_table *t;

	if (!table)
		return;
	t = container_of(table, struct linked_table, table);
	dynamos_programs_put(&t->programs);
	kvfree(t);
}

struct list_head *dynamos_table_link(struct dynamos_table *table)
{
	return &container_of(table, struct linked_table, table)->link;
}

void dynamos_tables_free(struct list_head *links)
{
	struct linked_table *t, *next;

	list_for_each_entry_safe(t, next, links, link) {
		list_del(&t->link);
		dynamos_table_free(&t->table);
	}
}

u32 dynamos_policy_choice(const struct dynamos_policy *policy, u32 class)
{
	if (class == DYNAMOS_TOGETHER)
		return DYNAMOS_TAKE;
	if (class != DYNAMOS_ANY)
		return DYNAMOS_ASK;
	if (policy->rules)
		return DYNAMOS_TABLE;
	return policy->otherwise ? DYNAMOS_TAKE : DYNAMOS_PASS;
}

static bool class_holds(u32 class)
{
	return class == DYNAMOS_TASK || class == DYNAMOS_OBJECT;
}

static bool updates_share(const struct dynamos_update *a,
			  const struct dynamos_update *b)
{
	u32 i, j;

	for (i = 0; i < a->count; i++)
		for (j = 0; j < b->count; j++)
			if (!strcmp(a->functions[i].symbol,
				    b->functions[j].symbol))
				return true;
	return false;
}

/* A call has space for the frames of DYNAMOS_FRAMES updates. */
static int room_for(const struct dynamos_update_state *update, char *why,
		    size_t room)
{
	const struct dynamos_update_state *other;
	int others = 0;

	list_for_each_entry(other, &dynamos_updates, link)
		if (other != update && other->state != DYNAMOS_LOADED &&
		    class_holds(other->class) &&
		    updates_share(update->update, other->update))
			others++;
	if (others < DYNAMOS_FRAMES)
		return 0;
	snprintf(why, room,
		 "%d updates of class task or object already change functions "
		 "of this one; wait until older ones have drained, or revert "
		 "one",
		 others);
	return -EBUSY;
}

static int objects_wrong(const struct dynamos_update *update, char *why,
			 size_t room)
{
	const struct dynamos_function *function;
	bool ends = false;
	u32 i;

	for (i = 0; i < update->count; i++) {
		function = &update->functions[i];
		ends |= function->ends;
		if (function->object < function->args)
			continue;
		snprintf(why, room,
			 "%s names no argument as its object; each function of "
			 "an update of class object must",
			 function->symbol);
		return -EINVAL;
	}
	if (ends)
		return 0;
	snprintf(
		why, room,
		"no function is marked as the end of the object's life, so the "
		"update could never drain; name the one that frees the object");
	return -EINVAL;
}

static int begin_objects(struct dynamos_update_state *update, char *why,
			 size_t room)
{
	int err = objects_wrong(update->update, why, room);

	if (err)
		return err;
	update->objects = dynamos_objects_make();
	if (!update->objects) {
		snprintf(why, room, "no memory for a table of objects");
		return -ENOMEM;
	}
	return 0;
}

int dynamos_group_begin(struct dynamos_update_state *update, char *why,
			size_t room)
{
	int err;

	lockdep_assert_held(&dynamos_lock);
	if (!class_holds(update->class))
		return 0;
	err = room_for(update, why, room);
	if (err)
		return err;
	if (update->class == DYNAMOS_OBJECT)
		return begin_objects(update, why, room);
	update->group = kzalloc(sizeof(*update->group), GFP_KERNEL);
	if (!update->group) {
		snprintf(why, room, "no memory for a group");
		return -ENOMEM;
	}
	update->group->number = ++groups;
	return 0;
}

void dynamos_group_stop(struct dynamos_update_state *update)
{
	if (update->group)
		WRITE_ONCE(update->group->stopped, true);
	if (update->objects)
		dynamos_objects_stop(update->objects);
}

u64 dynamos_group_left(struct dynamos_update_state *update)
{
	if (update->group)
		return atomic64_read(&update->group->held);
	return update->objects ? dynamos_objects_left(update->objects) : 0;
}

void dynamos_group_drop(struct dynamos_update_state *update)
{
	lockdep_assert_held(&dynamos_lock);
	kfree(update->group);
	update->group = NULL;
	if (update->objects)
		dynamos_objects_put(update->objects);
	update->objects = NULL;
}

int dynamos_group_init(void)
{
	get_random_bytes(&hash_secret, sizeof(hash_secret));
	return 0;
}
