// SPDX-License-Identifier: GPL-2.0-only
/*
 * Applies an update: reserves a slot and sets a hook for each function, puts
 * the new version at the head of the slot's chain, and sets the policy last. If
 * a step fails, the earlier ones are undone; until then no call uses the
 * update.
 *
 * dynamos_hooks is held throughout. dynamos_lock is held except during calls of
 * ftrace and livepatch, which may wait for every task.
 *
 * Context: process, and may sleep. dynamos_apply_release() also runs in
 * drain.c's worker.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/module.h>
#include <linux/sched.h>

#include <dynamos/core/policy.h>
#include <dynamos/core/state.h>

#include "engine.h"
#include "owner.h"

#define APPLY_TIMEOUT (10 * HZ)
#define A_MOMENT (HZ / 50)

static atomic_t waiting;
static u64 turns; /* number of APPLY calls so far; dynamos_lock */

bool dynamos_apply_waits(void)
{
	return atomic_read(&waiting);
}

void dynamos_apply_release(struct dynamos_slot *slot)
{
	lockdep_assert_held(&dynamos_lock);
	if (slot->first != &slot->kernel || slot->probes)
		return;
	dynamos_slot_step(slot, DYNAMOS_RETIRE_RELEASE);
	dynamos_drain_kick();
}

static struct dynamos_slot *take_slot(struct dynamos_update_state *u, u32 i,
				      char *why)
{
	const struct dynamos_place *at = &u->engine->at[i];
	struct dynamos_slot *s;

	s = dynamos_slot_take(u->update->functions[i].symbol, at->address,
			      at->length, at->place);
	if (s == ERR_PTR(-ENOSPC))
		scnprintf(why, DYNAMOS_WHY,
			  "no free slot for %s: at most %d functions can be "
			  "changed at a time; revert updates and wait until "
			  "they have drained",
			  u->update->functions[i].symbol, DYNAMOS_SLOTS);
	else if (IS_ERR(s))
		scnprintf(why, DYNAMOS_WHY,
			  "no memory for the counts of %s: free some and try "
			  "again",
			  u->update->functions[i].symbol);
	return s;
}

/* The slot that already hooks the function, or a new one, or an error. An
 * update of class together always gets new slots, because livepatch hooks its
 * functions. */
static struct dynamos_slot *reserve_one(struct dynamos_update_state *u, u32 i,
					char *why)
{
	struct dynamos_slot *s = NULL;

	if (u->class != DYNAMOS_TOGETHER)
		s = dynamos_slot_of(u->engine->at[i].place);
	if (!s)
		s = take_slot(u, i, why);
	if (IS_ERR(s))
		return s;
	if (u->class == DYNAMOS_TOGETHER)
		s->installer = dynamos_uncounted(&u->update->functions[i])
				       ? DYNAMOS_LIVEPATCH_ONLY
				       : DYNAMOS_LIVEPATCH;
	dynamos_slot_step(s, DYNAMOS_RETIRE_KEEP);
	return s;
}

/* Reserves all slots, or none. */
static int reserve_slots(struct dynamos_update_state *u, char *why)
{
	struct dynamos_slot *s;
	u32 i;

	for (i = 0; i < u->count; i++) {
		s = reserve_one(u, i, why);
		if (IS_ERR(s))
			break;
		u->version[i]->slot = s;
	}
	if (i == u->count)
		return 0;
	while (i--)
		dynamos_apply_release(u->version[i]->slot);
	return PTR_ERR(s);
}

/* Livepatch can only patch a function that has no other hook. -EAGAIN while a
 * hook is being removed. */
static int check_patchable(struct dynamos_update_state *u, char *why)
{
	struct dynamos_slot *s;
	u32 i;

	for (i = 0; i < u->count; i++) {
		s = dynamos_slot_of(u->engine->at[i].place);
		if (!s || !dynamos_retire_hooked(s->retire))
			continue;
		if (s->retire == DYNAMOS_KEPT && s->first == &s->kernel) {
			scnprintf(why, DYNAMOS_WHY,
				  "%s is probed: end 'skep update probe' first",
				  s->symbol);
			return -EBUSY;
		}
		if (s->retire == DYNAMOS_KEPT) {
			scnprintf(why, DYNAMOS_WHY,
				  "%s is changed by an update that is not of "
				  "class together: revert that one first",
				  s->symbol);
			return -EBUSY;
		}
		scnprintf(
			why, DYNAMOS_WHY,
			"the hook of an older update is still being removed "
			"from %s, which waits for every task of this node: try "
			"again; if this persists, a task loops in the kernel",
			s->symbol);
		return -EAGAIN;
	}
	if (!dynamos_owner_busy())
		return 0;
	scnprintf(why, DYNAMOS_WHY,
		  "another livepatch is in transition: try again");
	return -EAGAIN;
}

/* Counts start at 0, so no call may be inside. */
static void clear_counts(struct dynamos_version *v)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		memset(per_cpu_ptr(v->tally, cpu), 0, sizeof(*v->tally));
		memset(per_cpu_ptr(v->other, cpu), 0, sizeof(*v->other));
	}
	atomic64_set(&v->lost, 0);
}

static void link_one(struct dynamos_update_state *u, u32 i)
{
	struct dynamos_version *v = u->version[i];
	struct dynamos_place *at = &u->engine->at[i];
	struct dynamos_slot *s = v->slot;

	clear_counts(v);
	v->table = u->table;
	v->choice = DYNAMOS_PASS;
	v->sample = DYNAMOS_SAMPLE;
	dynamos_slot_sample(s);
	/* The older update may have drained in the meantime. */
	dynamos_slot_step(s, DYNAMOS_RETIRE_KEEP);
	dynamos_slot_link(s, v);
	at->before_lost = dynamos_slot_older(v, &at->before);
	at->installer = s->installer;
}

static bool update_changes(const struct dynamos_update_state *u,
			   unsigned long place)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		if (u->engine->at[i].place == place)
			return true;
	return false;
}

/* The number of functions that the older update and this one both change. */
static u32 count_common(const struct dynamos_update_state *u,
			const struct dynamos_update_state *older)
{
	u32 i, n = 0;

	for (i = 0; i < older->count; i++)
		n += update_changes(u, older->engine->at[i].place);
	return n;
}

static bool in_force(const struct dynamos_update_state *u)
{
	return u->state != DYNAMOS_LOADED && u->state != DYNAMOS_LEAVING;
}

/* `older` may end if the newer update changes none of its functions, or all of
 * them. On the way back (DYNAMOS_BACK) the others may return to a version that
 * is older still: in class any no call depends on another one. */
static bool may_leave(const struct dynamos_update_state *u,
		      const struct dynamos_update_state *older, u32 flags)
{
	u32 n = count_common(u, older);

	return !n || n == older->count ||
	       (flags & DYNAMOS_BACK && u->class == DYNAMOS_ANY &&
		older->class == DYNAMOS_ANY);
}

/* Of an update that was to leave. */
static int refuse_objects(const struct dynamos_update_state *u, char *why)
{
	size_t used = scnprintf(why, DYNAMOS_WHY,
				"objects that code of %s set up may be in use, "
				"and lack what older code relies on: ",
				u->name);

	if (u->update->object)
		used += scnprintf(why + used, DYNAMOS_WHY - used,
				  "unload the module %s, which reverts it, or ",
				  u->update->object);
	scnprintf(why + used, DYNAMOS_WHY - used,
		  "say why they do no harm (--objects-exist)");
	return -EBUSY;
}

static int can_supersede(struct dynamos_update_state *u, u32 flags, char *why)
{
	struct dynamos_update_state *older;

	if (u->update->object) {
		scnprintf(why, DYNAMOS_WHY,
			  "an update of a module cannot supersede another one: "
			  "revert the older one first");
		return -EOPNOTSUPP;
	}
	list_for_each_entry(older, &dynamos_updates, link) {
		if (older == u || !in_force(older))
			continue;
		if (flags & DYNAMOS_BACK && !(flags & DYNAMOS_OBJECTS_LEFT) &&
		    count_common(u, older) &&
		    dynamos_update_leaves_objects(older))
			return refuse_objects(older, why);
		if (may_leave(u, older, flags))
			continue;
		scnprintf(why, DYNAMOS_WHY,
			  "%s cannot supersede %s, which changes more "
			  "functions: build it with those too, or revert %s",
			  u->name, older->name, older->name);
		return -EINVAL;
	}
	return 0;
}

static void end_superseded(struct dynamos_update_state *u)
{
	struct dynamos_update_state *older;
	char text[DYNAMOS_WHY];

	lockdep_assert_held(&dynamos_lock);
	if (!u->engine->supersedes)
		return;
	scnprintf(text, sizeof(text), "superseded by %s", u->name);
	list_for_each_entry(older, &dynamos_updates, link) {
		if (older->engine->turn >= u->engine->turn ||
		    !in_force(older) || !count_common(u, older))
			continue;
		dynamos_update_end(older, DYNAMOS_SUPERSEDED, current, text);
		dynamos_drain_end(older);
	}
}

/* An update that is being reverted gets no calls, so the updates that it
 * supersedes must stay. So must they if its policy has an end. */
static int check_commit(struct dynamos_update_state *u,
			const struct dynamos_policy *policy, char *why)
{
	int next = dynamos_state_next(u->state, DYNAMOS_CONFIRM);

	if (next < 0)
		return dynamos_update_step(u, DYNAMOS_CONFIRM, why);
	if (atomic_read(&u->ending) != DYNAMOS_NOT_ENDING) {
		scnprintf(why, DYNAMOS_WHY, "%s is being reverted", u->name);
		return -EINVAL;
	}
	if (!u->engine->supersedes || !dynamos_policy_ends(policy))
		return 0;
	scnprintf(why, DYNAMOS_WHY,
		  "%s supersedes older updates, and its policy has a window, "
		  "after which neither would run: change the policy first",
		  u->name);
	return -EINVAL;
}

static int commit_checked(struct dynamos_update_state *u, char *why)
{
	int err = dynamos_update_step(u, DYNAMOS_CONFIRM, why);

	if (err)
		return err;
	dynamos_watch_commit(u);
	dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, current->pid,
			  current->comm, "committed");
	end_superseded(u);
	return 0;
}

int dynamos_apply_revert(struct dynamos_update_state *u, u32 flags, char *why)
{
	int err = dynamos_state_next(u->state, DYNAMOS_END);

	lockdep_assert_held(&dynamos_lock);
	if (err < 0)
		return dynamos_update_step(u, DYNAMOS_END, why);
	if (!(flags & DYNAMOS_OBJECTS_EXIST) &&
	    atomic_read(&u->ending) == DYNAMOS_NOT_ENDING &&
	    dynamos_update_leaves_objects(u))
		return refuse_objects(u, why);
	dynamos_update_end(u, DYNAMOS_ASKED, current, "reverted");
	dynamos_drain_end(u);
	return 0;
}

int dynamos_apply_commit(struct dynamos_update_state *u, char *why)
{
	int err;

	lockdep_assert_held(&dynamos_lock);
	err = check_commit(u, u->table ? &u->table->policy : NULL, why);
	return err ?: commit_checked(u, why);
}

/* If a check and a close run at the same time, one of them sees the other. */
static void publish_choice(struct dynamos_update_state *u)
{
	u32 choice = dynamos_policy_choice(&u->table->policy, u->class);
	struct dynamos_version *v;
	u32 i;

	for (i = 0; i < u->count; i++) {
		v = u->version[i];
		smp_store_release(&v->table, u->table);
		smp_store_release(&v->choice, choice);
	}
	smp_mb();
	if (atomic_read(&u->ending) == DYNAMOS_NOT_ENDING ||
	    u->class != DYNAMOS_ANY)
		return;
	for (i = 0; i < u->count; i++)
		WRITE_ONCE(u->version[i]->choice, DYNAMOS_PASS);
}

/* No call used the update, so none is inside. A call that is walking the chain
 * goes on to the older versions. */
static void disarm_versions(struct dynamos_update_state *u)
{
	u32 i;

	u->state = DYNAMOS_LOADED;
	u->engine->unsettled = true;
	for (i = 0; i < u->count; i++) {
		dynamos_slot_unlink(u->version[i]);
		dynamos_apply_release(u->version[i]->slot);
	}
	dynamos_watch_drop(u);
	dynamos_group_drop(u);
}

/* Class together: the wrapper always takes the version, and livepatch decides
 * which tasks call the wrapper. */
static int arm_versions(struct dynamos_update_state *u,
			const struct dynamos_apply *a, char *why)
{
	u32 step = u->class == DYNAMOS_TOGETHER ? DYNAMOS_ENTER : DYNAMOS_BEGIN;
	int err;
	u32 i;

	for (i = 0; i < u->count; i++)
		link_one(u, i);
	atomic_set(&u->ending, DYNAMOS_NOT_ENDING);
	u->end[0] = '\0';
	u->health = a->health;
	u->engine->supersedes = a->flags & DYNAMOS_SUPERSEDE;
	u->engine->turn = ++turns;
	u->engine->admitted = false;
	err = dynamos_group_begin(u, why, DYNAMOS_WHY);
	if (!err)
		err = dynamos_update_step(u, step, why);
	if (!err)
		err = dynamos_watch_begin(u, a->confirm_ms, why, DYNAMOS_WHY);
	if (err)
		disarm_versions(u);
	else
		publish_choice(u);
	return err;
}

static int set_hooks(struct dynamos_update_state *u, char *why)
{
	struct dynamos_slot *s;
	int err = 0;
	u32 i;

	for (i = 0; i < u->count && !err; i++) {
		s = u->version[i]->slot;
		if (s->installer == DYNAMOS_NONE)
			err = dynamos_hook_set(s, why);
	}
	return err;
}

/* Sets the hooks under dynamos_hooks alone, then makes the versions available
 * to calls. Slots were reserved before. */
static int start_update(struct dynamos_update_state *u,
			const struct dynamos_apply *a, char *why)
{
	u32 enter_ms = a->enter_ms ?: DYNAMOS_ENTER_MS;
	int err = set_hooks(u, why);
	u32 i;

	mutex_lock(&dynamos_lock);
	if (!err)
		err = arm_versions(u, a, why);
	else
		for (i = 0; i < u->count; i++)
			dynamos_apply_release(u->version[i]->slot);
	mutex_unlock(&dynamos_lock);
	if (err || u->class != DYNAMOS_TOGETHER)
		return err;
	err = dynamos_patch_enable(u, why);
	mutex_lock(&dynamos_lock);
	if (err)
		disarm_versions(u);
	else
		u->engine->enter_until = jiffies + msecs_to_jiffies(enter_ms);
	mutex_unlock(&dynamos_lock);
	return err;
}

/* An older update of the same module would stay in force below this one,
 * unnoticed. */
static int check_object(struct dynamos_update_state *u, char *why)
{
	struct dynamos_update_state *other;

	if (!u->update->object)
		return 0;
	if (atomic_cmpxchg(&u->engine->bound, DYNAMOS_SHUT_OUT,
			   DYNAMOS_UNBOUND) == DYNAMOS_BOUND) {
		scnprintf(why, DYNAMOS_WHY,
			  "%s was in force in the module %s, and holds its "
			  "addresses: apply its package again",
			  u->name, u->update->object);
		return -ESTALE;
	}
	list_for_each_entry(other, &dynamos_updates, link) {
		if (other == u || other->state == DYNAMOS_LOADED ||
		    !other->update->object ||
		    strcmp(other->update->object, u->update->object))
			continue;
		scnprintf(why, DYNAMOS_WHY,
			  "%s changes the module %s already: revert it first",
			  other->name, u->update->object);
		return -EBUSY;
	}
	return 0;
}

/* Objects of a module exist only while it is loaded, which livepatch tells for
 * certain (patch.c). */
static int check_objects(struct dynamos_update_state *u,
			 const struct dynamos_apply *a, char *why)
{
	bool relies = u->update->flags & DYNAMOS_RELIES &&
		      !(a->flags & DYNAMOS_OBJECTS_EXIST);

	u->engine->absent = relies && u->update->object;
	if (!relies || u->update->object)
		return 0;
	scnprintf(why, DYNAMOS_WHY,
		  "code of %s relies on what objects lack that older code set "
		  "up, and the kernel may have such objects: say why they do "
		  "no harm (--objects-exist)",
		  u->name);
	return -EBUSY;
}

static int check_allowed(struct dynamos_update_state *u,
			 struct dynamos_apply *a)
{
	if (dynamos_node_advised()) {
		scnprintf(a->why, DYNAMOS_WHY,
			  "a task died inside an update and may still hold a "
			  "lock: reboot this node before you apply another "
			  "update");
		return -EPERM;
	}
	if (u->state != DYNAMOS_LOADED) {
		u32 step = u->class == DYNAMOS_TOGETHER ? DYNAMOS_ENTER
							: DYNAMOS_BEGIN;

		return dynamos_update_step(u, step, a->why);
	}
	if (a->flags & DYNAMOS_SUPERSEDE)
		return can_supersede(u, a->flags, a->why);
	return 0;
}

static bool all_uncounted(const struct dynamos_update_state *u)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		if (!dynamos_uncounted(&u->update->functions[i]))
			return false;
	return true;
}

/* Refuses limits that can never be reached. */
static int check_limits(const struct dynamos_update_state *u,
			const struct dynamos_health *h, char *why)
{
	if (!all_uncounted(u) || !(h->errors || h->latency || h->stuck))
		return 0;
	scnprintf(why, DYNAMOS_WHY,
		  "the calls of %s cannot be counted, so no limit of errors, "
		  "latency or time can be watched: leave the limits out",
		  u->name);
	return -EINVAL;
}

/* Descriptors of programs are replaced by their numbers. */
static int get_programs(const struct dynamos_update_state *u,
			struct dynamos_policy *policy,
			struct dynamos_programs *programs, char *why)
{
	int err = dynamos_policy_allowed(policy, u->class, why, DYNAMOS_WHY);

	if (err)
		return err;
	if (dynamos_policy_programs(policy) &&
	    u->update->flags & DYNAMOS_NO_PROGRAM) {
		scnprintf(why, DYNAMOS_WHY,
			  "%s changes code that the scheduler, NMIs or BPF run "
			  "through, where no program can be asked: use the "
			  "other terms",
			  u->name);
		return -EOPNOTSUPP;
	}
	return dynamos_programs_get(policy, programs, why, DYNAMOS_WHY);
}

static int make_table(struct dynamos_update_state *u,
		      struct dynamos_policy *policy, bool *extends, char *why)
{
	struct dynamos_programs programs;
	struct dynamos_table *table;
	int err = get_programs(u, policy, &programs, why);

	if (err)
		return err;
	table = dynamos_table_make(policy, &programs);
	if (!table) {
		dynamos_programs_put(&programs);
		scnprintf(why, DYNAMOS_WHY, "no memory for the policy");
		return -ENOMEM;
	}
	*extends =
		u->table && dynamos_policy_extends(policy, &u->table->policy);
	dynamos_drain_table(u->table);
	u->table = table;
	return 0;
}

/* All checks that change nothing; then the update's module is pinned. */
static int prepare_update(struct dynamos_update_state *u,
			  struct dynamos_apply *a)
{
	bool extends;
	int err = check_allowed(u, a);

	if (!err)
		err = check_object(u, a->why);
	if (!err)
		err = check_objects(u, a, a->why);
	if (!err && u->class == DYNAMOS_TOGETHER)
		err = check_patchable(u, a->why);
	if (!err)
		err = check_limits(u, &a->health, a->why);
	if (!err)
		err = make_table(u, &a->policy, &extends, a->why);
	if (err)
		return err;
	if (!try_module_get(u->update->module)) {
		scnprintf(a->why, DYNAMOS_WHY, "%s is being unloaded", u->name);
		return -ENODEV;
	}
	err = reserve_slots(u, a->why);
	if (err)
		module_put(u->update->module);
	else
		u->engine->starting = true;
	return err;
}

static void finish_apply(struct dynamos_update_state *u, int err)
{
	struct module *module = u->update->module;

	mutex_lock(&dynamos_lock);
	if (!err)
		dynamos_event_add(u->name, DYNAMOS_ASKED, u->state,
				  current->pid, current->comm, "applied");
	dynamos_update_started(u);
	mutex_unlock(&dynamos_lock);
	dynamos_drain_kick();
	if (err)
		module_put(module);
}

/* The caller holds dynamos_hooks. */
static int try_apply(void *arg)
{
	struct dynamos_apply *a = arg;
	struct dynamos_update_state *u;
	int err;

	mutex_lock(&dynamos_lock);
	u = dynamos_update_find(a->name, a->why);
	err = IS_ERR(u) ? PTR_ERR(u) : prepare_update(u, a);
	mutex_unlock(&dynamos_lock);
	if (!err) {
		err = start_update(u, a, a->why);
		finish_apply(u, err);
	}
	return err;
}

/* Work that removes hooks lets waiting APPLY calls go first. */
static void wait_for_hooks(void)
{
	bool first = mutex_is_locked(&dynamos_hooks);

	atomic_add(first, &waiting);
	schedule_timeout_interruptible(A_MOMENT);
	atomic_sub(first, &waiting);
}

static int try_with_hooks(int (*try)(void *arg), void *arg, char *why)
{
	int err;

	if (!mutex_trylock(&dynamos_hooks)) {
		scnprintf(why, DYNAMOS_WHY,
			  "hooks of other updates are being set or removed, "
			  "which waits for every task of this node: try again; "
			  "if this persists, a task loops in the kernel");
		return -EAGAIN;
	}
	err = try(arg);
	mutex_unlock(&dynamos_hooks);
	return err;
}

int dynamos_apply_retry(int (*try)(void *arg), void *arg, char *why)
{
	unsigned long until = jiffies + APPLY_TIMEOUT;
	int err;

	for (;;) {
		why[0] = '\0';
		err = try_with_hooks(try, arg, why);
		if (err != -EAGAIN || time_after(jiffies, until) ||
		    signal_pending(current))
			return err;
		wait_for_hooks();
	}
}

int dynamos_apply_begin(struct dynamos_apply *a)
{
	return dynamos_apply_retry(try_apply, a, a->why);
}

/* A lease is a window whose end moves, once a second: the comparison of the
 * versions then goes on, and the events have room for others. */
static int replace_policy(struct dynamos_update_state *u,
			  struct dynamos_change *c)
{
	bool extends;
	int err;

	if (!in_force(u) || u->state == DYNAMOS_ENTERING) {
		scnprintf(c->why, DYNAMOS_WHY,
			  "%s is %s: only an applied update has a policy; "
			  "apply it first",
			  u->name, dynamos_state_name(u->state));
		return -EINVAL;
	}
	err = make_table(u, &c->policy, &extends, c->why);
	if (err)
		return err;
	publish_choice(u);
	if (extends)
		return 0;
	dynamos_watch_anew(u);
	dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, current->pid,
			  current->comm, "policy changed");
	return 0;
}

/* The policy first, and then the end of what is older: a call that asks in
 * between finds one of them. */
int dynamos_apply_policy(struct dynamos_update_state *u,
			 struct dynamos_change *c)
{
	bool commits =
		c->flags & DYNAMOS_COMMITS && u->state != DYNAMOS_COMMITTED;
	int err = 0;

	lockdep_assert_held(&dynamos_lock);
	if (commits)
		err = check_commit(u, &c->policy, c->why);
	if (!err)
		err = replace_policy(u, c);
	if (!err && commits)
		err = commit_checked(u, c->why);
	return err;
}
