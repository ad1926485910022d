// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts an update in force: a slot and a hook for each function, the version on
 * top of the slot's chain, then the policy, last. What was made is unmade in
 * reverse order where a step is refused. dynamos_lock is held throughout.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/module.h>
#include <linux/sched.h>

#include <dynamos/core/policy.h>
#include <dynamos/core/state.h>

#include "engine.h"

#define SAMPLE 63 /* one call in 64 is timed */

void dynamos_apply_release(struct dynamos_slot *slot)
{
	if (slot->first != &slot->kernel)
		return;
	slot->retire = DYNAMOS_UNNEEDED;
	dynamos_drain_kick();
}

static struct dynamos_slot *take(struct dynamos_inside *u, u32 i, char *why)
{
	const struct dynamos_place *at = &u->engine->at[i];
	struct dynamos_slot *s;

	s = dynamos_slot_take(u->update->functions[i].symbol, at->address,
			      at->length, at->place);
	if (!s)
		scnprintf(why, DYNAMOS_WHY,
			  "no slot for %s: %d functions can be changed at a "
			  "time; revert some, and let them leave",
			  u->update->functions[i].symbol, DYNAMOS_SLOTS);
	return s;
}

/* The function's slot, hooked: there already, being emptied, or a new one. */
static struct dynamos_slot *hook(struct dynamos_inside *u, u32 i, char *why,
				 int *err)
{
	struct dynamos_slot *s = dynamos_slot_of(u->engine->at[i].place);
	bool fresh = !s;

	*err = -ENOSPC;
	if (s && s->retire <= DYNAMOS_UNNEEDED) {
		s->retire = DYNAMOS_KEPT;
		return s;
	}
	if (fresh)
		s = take(u, i, why);
	if (!s)
		return NULL;
	*err = dynamos_hook_set(s, why);
	if (!*err) {
		s->retire = DYNAMOS_KEPT;
		return s;
	}
	if (fresh)
		dynamos_slot_free(s);
	return NULL;
}

static struct dynamos_slot *patchable(struct dynamos_inside *u, u32 i,
				      char *why, int *err)
{
	struct dynamos_slot *s = dynamos_slot_of(u->engine->at[i].place);

	*err = -EBUSY;
	if (s && s->retire == DYNAMOS_KEPT) {
		scnprintf(why, DYNAMOS_WHY,
			  "%s is changed by an update that is not of class "
			  "together: revert that one first",
			  s->symbol);
		return NULL;
	}
	if (s)
		dynamos_slot_unhook(s);
	*err = -ENOSPC;
	s = take(u, i, why);
	if (s)
		s->installer = DYNAMOS_LIVEPATCH;
	return s;
}

/* A count starts at nothing, so nobody may be inside. */
static void clear_counts(struct dynamos_version *v)
{
	int cpu;

	for_each_possible_cpu(cpu)
	{
		memset(per_cpu_ptr(v->tally, cpu), 0, sizeof(*v->tally));
		memset(per_cpu_ptr(v->other, cpu), 0, sizeof(*v->other));
	}
	atomic64_set(&v->lost, 0);
}

static void unlink_one(struct dynamos_inside *u, u32 i)
{
	struct dynamos_slot *s = u->version[i]->slot;

	dynamos_slot_unlink(u->version[i]);
	dynamos_apply_release(s);
}

static int link_one(struct dynamos_inside *u, u32 i, char *why)
{
	struct dynamos_version *v = u->version[i];
	struct dynamos_place *at = &u->engine->at[i];
	struct dynamos_slot *s;
	int err;

	s = u->class == DYNAMOS_TOGETHER ? patchable(u, i, why, &err)
					 : hook(u, i, why, &err);
	if (!s)
		return err;
	clear_counts(v);
	v->table = u->table;
	v->choice = DYNAMOS_PASS;
	v->sample = SAMPLE;
	s->kernel.sample = SAMPLE;
	dynamos_slot_link(s, v);
	at->before_lost = dynamos_slot_older(v, &at->before);
	at->installer = s->installer;
	return 0;
}

static int link_all(struct dynamos_inside *u, char *why)
{
	u32 i;
	int err;

	for (i = 0; i < u->count; i++) {
		err = link_one(u, i, why);
		if (err)
			break;
	}
	if (i == u->count)
		return 0;
	while (i--)
		unlink_one(u, i);
	dynamos_settle();
	return err;
}

static bool changes(const struct dynamos_inside *u, unsigned long place)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		if (u->engine->at[i].place == place)
			return true;
	return false;
}

/* 0: nothing in common. Else how many of the older one's functions are ours. */
static u32 common(const struct dynamos_inside *u,
		  const struct dynamos_inside *older)
{
	u32 i, n = 0;

	for (i = 0; i < older->count; i++)
		n += changes(u, older->engine->at[i].place);
	return n;
}

static bool in_force(const struct dynamos_inside *u)
{
	return u->state != DYNAMOS_LOADED && u->state != DYNAMOS_LEAVING;
}

static int can_supersede(struct dynamos_inside *u, char *why)
{
	struct dynamos_inside *older;
	u32 n;

	list_for_each_entry(older, &dynamos_updates, link)
	{
		if (older == u || !in_force(older))
			continue;
		n = common(u, older);
		if (!n || n == older->count)
			continue;
		scnprintf(why, DYNAMOS_WHY,
			  "%s cannot supersede %s, which changes more "
			  "functions: build it with those too, or revert %s",
			  u->name, older->name, older->name);
		return -EINVAL;
	}
	return 0;
}

void dynamos_apply_supersede(struct dynamos_inside *u)
{
	struct dynamos_inside *older;
	char text[DYNAMOS_WHY];

	scnprintf(text, sizeof(text), "superseded by %s", u->name);
	list_for_each_entry(older, &dynamos_updates, link)
	{
		if (older == u || !in_force(older) || !common(u, older))
			continue;
		dynamos_update_end(older, DYNAMOS_SUPERSEDED, current->pid,
				   text);
		dynamos_drain_end(older);
	}
}

/* A check and a shut that cross: one of the two sees the other. */
static void choose(struct dynamos_inside *u)
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
	if (!atomic_read(&u->ending) || u->class != DYNAMOS_ANY)
		return;
	for (i = 0; i < u->count; i++)
		WRITE_ONCE(u->version[i]->choice, DYNAMOS_PASS);
}

/* Class together: the wrapper always takes the version, and livepatch decides
 * who comes to the wrapper. */
static int start(struct dynamos_inside *u, const struct dynamos_apply *a,
		 char *why)
{
	struct dynamos_engine *e = u->engine;

	if (u->class != DYNAMOS_TOGETHER) {
		choose(u);
		return 0;
	}
	choose(u);
	e->enter_until = jiffies + msecs_to_jiffies(a->enter_ms ?: 60000);
	return dynamos_patch_enable(u, why);
}

static void unlink_all(struct dynamos_inside *u)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		unlink_one(u, i);
	dynamos_settle();
}

static int begin(struct dynamos_inside *u, const struct dynamos_apply *a,
		 char *why)
{
	u32 step = u->class == DYNAMOS_TOGETHER ? DYNAMOS_ENTER : DYNAMOS_BEGIN;
	int err = link_all(u, why);

	if (err)
		return err;
	err = dynamos_group_begin(u, why, DYNAMOS_WHY);
	if (err)
		goto unlink;
	atomic_set(&u->ending, 0);
	u->end[0] = '\0';
	u->health = a->health;
	u->engine->supersedes = a->flags & DYNAMOS_SUPERSEDE;
	u->engine->leave = DYNAMOS_STAYS;
	u->engine->admitted = false;
	err = dynamos_update_step(u, step, why);
	if (!err)
		err = dynamos_watch_begin(u, a->confirm_ms, why, DYNAMOS_WHY);
	if (err)
		goto drop;
	err = start(u, a, why);
	if (!err)
		return 0;
	dynamos_watch_drop(u);
drop:
	u->state = DYNAMOS_LOADED;
	unlink_all(u);
	dynamos_group_drop(u);
	return err;
unlink:
	unlink_all(u);
	return err;
}

static int allowed(struct dynamos_inside *u, struct dynamos_apply *a)
{
	if (dynamos_node_advised()) {
		scnprintf(a->why, DYNAMOS_WHY,
			  "a task died inside an update and may have left a "
			  "lock: reboot this node before anything is applied");
		return -EPERM;
	}
	if (u->state != DYNAMOS_LOADED) {
		u32 step = u->class == DYNAMOS_TOGETHER ? DYNAMOS_ENTER
							: DYNAMOS_BEGIN;

		return dynamos_update_step(u, step, a->why);
	}
	if (a->flags & DYNAMOS_SUPERSEDE)
		return can_supersede(u, a->why);
	return 0;
}

static int make_table(struct dynamos_inside *u,
		      const struct dynamos_policy *policy, char *why)
{
	struct dynamos_table *table;
	int err = dynamos_policy_allowed(policy, u->class, why, DYNAMOS_WHY);

	if (err)
		return err;
	table = dynamos_table_make(policy);
	if (!table) {
		scnprintf(why, DYNAMOS_WHY, "no memory for the policy");
		return -ENOMEM;
	}
	dynamos_drain_table(u->table);
	u->table = table;
	return 0;
}

int dynamos_apply_begin(struct dynamos_inside *u, struct dynamos_apply *a)
{
	int err = allowed(u, a);

	if (!err)
		err = make_table(u, &a->policy, a->why);
	if (err)
		return err;
	if (!try_module_get(u->update->module)) {
		scnprintf(a->why, DYNAMOS_WHY, "%s is being unloaded", u->name);
		return -ENODEV;
	}
	err = begin(u, a, a->why);
	if (err) {
		module_put(u->update->module);
		return err;
	}
	dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, current->pid,
			  current->comm, "applied");
	if (u->engine->supersedes && u->class != DYNAMOS_TOGETHER)
		dynamos_apply_supersede(u);
	dynamos_drain_kick();
	return 0;
}

int dynamos_apply_policy(struct dynamos_inside *u, struct dynamos_change *c)
{
	int err;

	if (!in_force(u) || u->state == DYNAMOS_ENTERING) {
		scnprintf(c->why, DYNAMOS_WHY,
			  "%s is %s: only what is in force has a policy; use "
			  "APPLY",
			  u->name, dynamos_state_name(u->state));
		return -EINVAL;
	}
	err = make_table(u, &c->policy, c->why);
	if (err)
		return err;
	choose(u);
	dynamos_watch_anew(u);
	dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, current->pid,
			  current->comm, "policy changed");
	return 0;
}
