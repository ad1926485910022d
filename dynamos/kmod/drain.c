// SPDX-License-Identifier: GPL-2.0-only
/*
 * What takes time: updates that enter or leave, slots that become empty,
 * tables that may still be read. One work item looks at all of it, each time
 * someone kicks and as long as something is under way. It settles without
 * dynamos_lock, for whatever had said by then that it needs it.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include <dynamos/core/policy.h>
#include <dynamos/core/state.h>

#include "engine.h"

#define SOON msecs_to_jiffies(10)
#define LATER msecs_to_jiffies(100)
#define SELDOM HZ

enum wait { FOR_NOTHING, FOR_CALLS, FOR_TEXT };

static struct workqueue_struct *queue;
static void tend(struct work_struct *work);
static DECLARE_DELAYED_WORK(tending, tend);

/* Tables that no version points to any more. */
struct waste {
	struct list_head link;
	struct dynamos_table *table;
};
static LIST_HEAD(wasted);

void dynamos_drain_kick(void)
{
	mod_delayed_work(queue, &tending, 0);
}

/* Without memory for the note, the wait is now. */
void dynamos_drain_table(struct dynamos_table *table)
{
	struct waste *w;

	if (!table)
		return;
	w = kmalloc(sizeof(*w), GFP_KERNEL);
	if (!w) {
		dynamos_settle();
		kvfree(table);
		return;
	}
	w->table = table;
	list_add(&w->link, &wasted);
	dynamos_drain_kick();
}

static void burn(struct list_head *list)
{
	struct waste *w, *next;

	list_for_each_entry_safe(w, next, list, link)
	{
		kvfree(w->table);
		kfree(w);
	}
}

void dynamos_drain_end(struct dynamos_inside *u)
{
	char why[DYNAMOS_WHY];

	if (atomic_read_acquire(&u->ending) != 2 ||
	    dynamos_update_step(u, DYNAMOS_END, why))
		return;
	u->engine->leave = u->class == DYNAMOS_TOGETHER ? DYNAMOS_UNPATCHING
							: DYNAMOS_SHUT;
	u->engine->settling = false;
	strscpy(u->end, u->text, sizeof(u->end));
	dynamos_event_add(u->name, u->cause, u->state, u->pid, "", u->text);
	dynamos_watch_commit(u);
	dynamos_drain_kick();
}

static void undo(struct dynamos_inside *u)
{
	char text[DYNAMOS_WHY];

	dynamos_patch_blockers(u, text, sizeof(text));
	dynamos_update_end(u, DYNAMOS_UNDONE, 0, text);
}

/* Returns when to look again. */
static unsigned long enter(struct dynamos_inside *u)
{
	struct dynamos_engine *e = u->engine;
	char why[DYNAMOS_WHY];

	if (dynamos_patch_entered(e->patch)) {
		dynamos_update_step(u, DYNAMOS_ENTERED, why);
		dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, 0, "",
				  "all tasks changed over");
		if (e->supersedes)
			dynamos_apply_supersede(u);
		return SELDOM;
	}
	if (time_after(jiffies, e->enter_until))
		undo(u);
	return SOON;
}

/* Another livepatch that replaces all others does not ask them. */
static unsigned long stay(struct dynamos_inside *u)
{
	if (dynamos_patch_left(u->engine->patch))
		dynamos_update_end(u, DYNAMOS_SUPERSEDED, 0,
				   "a livepatch that replaces all others was "
				   "loaded");
	return SELDOM;
}

static void unlink_all(struct dynamos_inside *u)
{
	struct dynamos_place *at;
	struct dynamos_slot *s;
	u32 i;

	for (i = 0; i < u->count; i++) {
		at = &u->engine->at[i];
		s = u->version[i]->slot;
		WRITE_ONCE(u->version[i]->choice, DYNAMOS_PASS);
		at->after_lost = dynamos_slot_older(u->version[i], &at->after);
		dynamos_slot_unlink(u->version[i]);
		dynamos_apply_release(s);
	}
}

static void left(struct dynamos_inside *u)
{
	struct dynamos_engine *e = u->engine;
	char why[DYNAMOS_WHY];

	dynamos_group_drop(u);
	dynamos_watch_drop(u);
	dynamos_patch_free(e->patch);
	e->patch = NULL;
	e->leave = DYNAMOS_STAYS;
	dynamos_update_step(u, DYNAMOS_DRAINED, why);
	dynamos_event_add(u->name, u->cause, u->state, 0, "", "left");
	module_put(u->update->module);
}

static void shut(struct dynamos_engine *e, enum dynamos_leave leave)
{
	e->leave = leave;
	e->settling = false;
}

/* Returns when to look again; `settled`: dynamos_settle() ran since the mark.
 */
static unsigned long leave(struct dynamos_inside *u, bool settled)
{
	struct dynamos_engine *e = u->engine;

	settled &= e->settling;
	switch (e->leave) {
	case DYNAMOS_UNPATCHING:
		if (!dynamos_patch_left(e->patch)) {
			dynamos_patch_disable(e->patch);
			return SOON;
		}
		shut(e, DYNAMOS_SHUT);
		return 0;
	case DYNAMOS_SHUT:
		if (!settled)
			return 0;
		e->leave = DYNAMOS_DRAINING;
		fallthrough;
	case DYNAMOS_DRAINING:
		if (dynamos_update_inside(u) || dynamos_group_left(u))
			return LATER;
		unlink_all(u);
		shut(e, DYNAMOS_UNLINKED);
		return 0;
	case DYNAMOS_UNLINKED:
		if (!settled)
			return 0;
		left(u);
		return 0;
	default:
		return LATER;
	}
}

/* `settled`: settle_text() ran since the mark. */
static unsigned long empty(struct dynamos_slot *s, bool settled)
{
	settled &= s->settling;
	switch (s->retire) {
	case DYNAMOS_UNNEEDED:
		return SOON;
	case DYNAMOS_UNHOOKED:
		if (!settled)
			return 0;
		s->retire = DYNAMOS_EMPTYING;
		fallthrough;
	case DYNAMOS_EMPTYING:
		if (dynamos_version_inside(&s->kernel))
			return LATER;
		s->retire = DYNAMOS_EMPTY;
		s->settling = false;
		return 0;
	case DYNAMOS_EMPTY:
		if (settled)
			dynamos_slot_free(s);
		return 0;
	default:
		return MAX_SCHEDULE_TIMEOUT;
	}
}

static unsigned long look_at(struct dynamos_inside *u, bool settled)
{
	dynamos_drain_end(u);
	switch (u->state) {
	case DYNAMOS_ENTERING:
		return enter(u);
	case DYNAMOS_TRIAL:
	case DYNAMOS_COMMITTED:
		return u->class == DYNAMOS_TOGETHER ? stay(u)
						    : MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_LEAVING:
		return leave(u, settled);
	default:
		return MAX_SCHEDULE_TIMEOUT;
	}
}

/* One look at everything: what ran since the marks is settled. */
static unsigned long look(enum wait settled)
{
	unsigned long next = MAX_SCHEDULE_TIMEOUT;
	struct dynamos_inside *u;
	struct dynamos_slot *s;
	u32 n = 0;

	list_for_each_entry(u, &dynamos_updates, link) next =
		min(next, look_at(u, settled == FOR_CALLS));
	while ((s = dynamos_slot_next(&n)))
		next = min(next, empty(s, settled == FOR_TEXT));
	return next;
}

/* The updates that wait for the settle that begins now. */
static bool mark_updates(void)
{
	struct dynamos_inside *u;
	bool any = false;

	list_for_each_entry(u, &dynamos_updates, link)
	{
		if (u->state != DYNAMOS_LEAVING ||
		    (u->engine->leave != DYNAMOS_SHUT &&
		     u->engine->leave != DYNAMOS_UNLINKED))
			continue;
		u->engine->settling = true;
		any = true;
	}
	return any;
}

static bool mark_slots(void)
{
	struct dynamos_slot *s;
	bool any = false;
	u32 n = 0;

	while ((s = dynamos_slot_next(&n))) {
		dynamos_slot_unhook(s);
		if (s->retire != DYNAMOS_UNHOOKED && s->retire != DYNAMOS_EMPTY)
			continue;
		s->settling = true;
		any = true;
	}
	return any;
}

/* Updates go first: their wait is the shorter one. */
static enum wait mark(struct list_head *waste)
{
	list_splice_init(&wasted, waste);
	if (mark_updates() || !list_empty(waste))
		return FOR_CALLS;
	return mark_slots() ? FOR_TEXT : FOR_NOTHING;
}

/* After this no task stands anywhere in the text that leads to a wrapper, or
 * in what follows after a wrapper has counted. */
static void settle_text(void)
{
	synchronize_rcu_tasks();
	synchronize_rcu_tasks_rude();
}

static void tend(struct work_struct *work)
{
	unsigned long next;
	LIST_HEAD(waste);
	enum wait wait;

	mutex_lock(&dynamos_lock);
	look(FOR_NOTHING);
	wait = mark(&waste);
	mutex_unlock(&dynamos_lock);
	if (wait == FOR_CALLS)
		dynamos_settle();
	else if (wait == FOR_TEXT)
		settle_text();
	burn(&waste);
	mutex_lock(&dynamos_lock);
	next = look(wait);
	mutex_unlock(&dynamos_lock);
	if (next != MAX_SCHEDULE_TIMEOUT)
		queue_delayed_work(queue, &tending, next);
}

int dynamos_drain_init(void)
{
	queue = alloc_ordered_workqueue("dynamos", 0);
	return queue ? 0 : -ENOMEM;
}

/* No update is left, and each slot in use held the module: only tables. */
void dynamos_drain_exit(void)
{
	cancel_delayed_work_sync(&tending);
	destroy_workqueue(queue);
	if (!list_empty(&wasted))
		dynamos_settle();
	burn(&wasted);
}
