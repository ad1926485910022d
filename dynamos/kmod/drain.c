// SPDX-License-Identifier: GPL-2.0-only
/*
 * What takes time: updates that enter or leave, slots that become empty,
 * tables that may still be read. One work item looks at all of it, each time
 * someone kicks and as long as something is under way; it never waits for
 * anything but dynamos_lock. What waits for the rest of the machine, which a
 * task that loops in the kernel can hold up for ever, does so in a work item
 * for each kind of wait, without dynamos_lock.
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

static struct workqueue_struct *queue;
static void drain_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(tending, drain_work);

/* One kind of wait. It is for whatever had said that it needs it by the time it
 * began. */
struct pause {
	struct work_struct work;
	void (*wait)(void);
	bool running, over; /* over: since the last look; dynamos_lock */
};

static void wait_for_calls(void);
static void wait_for_text(void);
static void take_hooks(void);
static void take_patches(void);
static struct pause calls = {.wait = wait_for_calls};
static struct pause text = {.wait = wait_for_text};
static struct pause hooks = {.wait = take_hooks};
static struct pause patches = {.wait = take_patches};
static struct pause *const pauses[] = {&calls, &text, &hooks, &patches};

/* Tables that no version points to any more; those of `burning` wait. */
struct waste {
	struct list_head link;
	struct dynamos_table *table;
};
static LIST_HEAD(wasted);
static LIST_HEAD(burning);

void dynamos_drain_kick(void)
{
	mod_delayed_work(queue, &tending, 0);
}

void dynamos_drain_table(struct dynamos_table *table)
{
	struct waste *w;

	if (!table)
		return;
	w = kmalloc(sizeof(*w), GFP_KERNEL | __GFP_NOFAIL);
	w->table = table;
	list_add(&w->link, &wasted);
	dynamos_drain_kick();
}

static void free_garbage(struct list_head *list)
{
	struct waste *w, *next;

	list_for_each_entry_safe(w, next, list, link)
	{
		list_del(&w->link);
		kvfree(w->table);
		kfree(w);
	}
}

void dynamos_drain_end(struct dynamos_update_state *u)
{
	char why[DYNAMOS_WHY];

	if (atomic_read_acquire(&u->ending) != 2 || u->engine->starting ||
	    dynamos_update_step(u, DYNAMOS_END, why))
		return;
	u->engine->leave = u->class == DYNAMOS_TOGETHER ? DYNAMOS_UNPATCHING
							: DYNAMOS_SHUT;
	u->engine->settling = false;
	strscpy(u->end, u->text, sizeof(u->end));
	dynamos_event_add(u->name, u->cause, u->state, u->pid, u->comm,
			  u->text);
	dynamos_watch_commit(u);
	dynamos_drain_kick();
}

static void undo_transition(struct dynamos_update_state *u)
{
	char text[DYNAMOS_WHY];

	dynamos_patch_blockers(u, text, sizeof(text));
	dynamos_update_end(u, DYNAMOS_UNDONE, NULL, text);
}

/* Returns when to look again. */
static unsigned long poll_entering(struct dynamos_update_state *u)
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
		undo_transition(u);
	return SOON;
}

/* Another livepatch that replaces all others does not ask them. */
static unsigned long poll_in_force(struct dynamos_update_state *u)
{
	if (dynamos_patch_left(u->engine->patch))
		dynamos_update_end(u, DYNAMOS_SUPERSEDED, NULL,
				   "a livepatch that replaces all others was "
				   "loaded");
	return SELDOM;
}

static void unlink_all(struct dynamos_update_state *u)
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

/* Nobody is inside. A held update is not let go after the first time: what has
 * a pointer into its module may come at any time. */
static void put_update_module(struct dynamos_update_state *u)
{
	if (u->update->held && !u->engine->held)
		u->engine->held = true;
	else
		module_put(u->update->module);
}

static void finish_draining(struct dynamos_update_state *u)
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
	put_update_module(u);
}

/* Waits until nobody new can come, or until nobody can still look. */
static void begin_settling(struct dynamos_engine *e, enum dynamos_leave leave)
{
	e->leave = leave;
	e->settling = false;
}

/* Returns when to look again. */
static unsigned long poll_leaving(struct dynamos_update_state *u)
{
	struct dynamos_engine *e = u->engine;
	bool settled = e->settling && calls.over;

	switch (e->leave) {
	case DYNAMOS_UNPATCHING:
		if (patches.running || !dynamos_patch_left(e->patch))
			return SOON;
		begin_settling(e, DYNAMOS_SHUT);
		fallthrough;
	case DYNAMOS_SHUT:
		if (!settled)
			return MAX_SCHEDULE_TIMEOUT;
		e->leave = DYNAMOS_DRAINING;
		fallthrough;
	case DYNAMOS_DRAINING:
		if (dynamos_update_inside(u) || dynamos_group_left(u))
			return LATER;
		unlink_all(u);
		begin_settling(e, DYNAMOS_UNLINKED);
		return MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_UNLINKED:
		if (settled)
			finish_draining(u);
		return MAX_SCHEDULE_TIMEOUT;
	default:
		return LATER;
	}
}

static unsigned long poll_retiring(struct dynamos_slot *s)
{
	bool settled = s->settling && text.over;

	switch (s->retire) {
	case DYNAMOS_UNHOOKED:
		if (!settled)
			return MAX_SCHEDULE_TIMEOUT;
		s->retire = DYNAMOS_EMPTYING;
		fallthrough;
	case DYNAMOS_EMPTYING:
		if (dynamos_version_inside(&s->kernel))
			return LATER;
		s->retire = DYNAMOS_EMPTY;
		s->settling = false;
		return MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_EMPTY:
		if (settled)
			dynamos_slot_free(s);
		return MAX_SCHEDULE_TIMEOUT;
	default:
		return MAX_SCHEDULE_TIMEOUT;
	}
}

static unsigned long look_at(struct dynamos_update_state *u)
{
	if (u->engine->starting)
		return MAX_SCHEDULE_TIMEOUT;
	dynamos_drain_end(u);
	switch (u->state) {
	case DYNAMOS_ENTERING:
		return poll_entering(u);
	case DYNAMOS_TRIAL:
	case DYNAMOS_COMMITTED:
		return u->class == DYNAMOS_TOGETHER ? poll_in_force(u)
						    : MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_LEAVING:
		return poll_leaving(u);
	default:
		return MAX_SCHEDULE_TIMEOUT;
	}
}

/* One look at everything. */
static unsigned long poll_all(void)
{
	unsigned long next = MAX_SCHEDULE_TIMEOUT;
	struct dynamos_update_state *u;
	struct dynamos_slot *s;
	u32 n = 0;

	list_for_each_entry(u, &dynamos_updates, link) next =
		min(next, look_at(u));
	while ((s = dynamos_slot_next(&n)))
		next = min(next, poll_retiring(s));
	calls.over = text.over = false;
	return next;
}

/* What the next wait of each kind is for; true: there is something. */

static bool mark_updates(void)
{
	bool any = !list_empty(&wasted);
	struct dynamos_update_state *u;

	list_splice_init(&wasted, &burning);
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
		if (s->retire != DYNAMOS_UNHOOKED && s->retire != DYNAMOS_EMPTY)
			continue;
		s->settling = true;
		any = true;
	}
	return any;
}

static bool slots_hang(void)
{
	struct dynamos_slot *s;
	u32 n = 0;

	while ((s = dynamos_slot_next(&n)))
		if (s->retire == DYNAMOS_UNNEEDED)
			return true;
	return false;
}

static bool update_hangs(const struct dynamos_update_state *u)
{
	return u->state == DYNAMOS_LEAVING &&
	       u->engine->leave == DYNAMOS_UNPATCHING &&
	       !dynamos_patch_left(u->engine->patch);
}

static bool patches_hang(void)
{
	struct dynamos_update_state *u;

	list_for_each_entry(u, &dynamos_updates,
			    link) if (update_hangs(u)) return true;
	return false;
}

static void run_pause(struct work_struct *work)
{
	struct pause *p = container_of(work, struct pause, work);

	p->wait();
	mutex_lock(&dynamos_lock);
	p->running = false;
	p->over = true;
	mutex_unlock(&dynamos_lock);
	dynamos_drain_kick();
}

static void begin_pause(struct pause *p, bool (*needed)(void))
{
	if (p->running || !needed())
		return;
	p->running = true;
	queue_work(queue, &p->work);
}

static void drain_work(struct work_struct *work)
{
	unsigned long next;

	mutex_lock(&dynamos_lock);
	next = poll_all();
	begin_pause(&calls, mark_updates);
	begin_pause(&text, mark_slots);
	begin_pause(&hooks, slots_hang);
	begin_pause(&patches, patches_hang);
	mutex_unlock(&dynamos_lock);
	if (next != MAX_SCHEDULE_TIMEOUT)
		queue_delayed_work(queue, &tending, next);
}

static void wait_for_calls(void)
{
	dynamos_settle();
	free_garbage(&burning);
}

/* After this no task stands anywhere in the text that leads to a wrapper, or
 * in what follows after a wrapper has counted. */
static void wait_for_text(void)
{
	synchronize_rcu_tasks();
	synchronize_rcu_tasks_rude();
}

/* Ftrace waits for each task as well, and holds locks of its own meanwhile:
 * what would hold it up is waited for before. An APPLY goes first; this is
 * begun again. */
static void take_hooks(void)
{
	struct dynamos_slot *s;
	u32 n = 0;

	wait_for_text();
	mutex_lock(&dynamos_hooks);
	while (!dynamos_apply_waits() && (s = dynamos_slot_next(&n)))
		dynamos_slot_unhook(s);
	mutex_unlock(&dynamos_hooks);
}

/* While this runs, poll_leaving() frees no patch. */
static void take_patches(void)
{
	struct dynamos_patch *patch[DYNAMOS_SLOTS];
	struct dynamos_update_state *u;
	u32 i, n = 0;

	mutex_lock(&dynamos_lock);
	list_for_each_entry(u, &dynamos_updates,
			    link) if (n < DYNAMOS_SLOTS && update_hangs(u))
		patch[n++] = u->engine->patch;
	mutex_unlock(&dynamos_lock);
	for (i = 0; i < n; i++)
		dynamos_patch_disable(patch[i]);
}

int dynamos_drain_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pauses); i++)
		INIT_WORK(&pauses[i]->work, run_pause);
	queue = alloc_workqueue("dynamos", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

/* No update is left, and each slot in use held the module: only tables. What
 * ends a wait kicks once more. */
void dynamos_drain_exit(void)
{
	size_t i;

	cancel_delayed_work_sync(&tending);
	for (i = 0; i < ARRAY_SIZE(pauses); i++)
		flush_work(&pauses[i]->work);
	cancel_delayed_work_sync(&tending);
	destroy_workqueue(queue);
	if (!list_empty(&wasted))
		dynamos_settle();
	free_garbage(&wasted);
}
