// SPDX-License-Identifier: GPL-2.0-only
/*
 * Everything that takes time: updates in transition or draining, slots that
 * become empty, tables that may still be read. One work item polls all of it,
 * after each kick and as long as something is pending; it blocks on nothing but
 * dynamos_lock. Waits for the rest of the machine, which a task that loops in
 * the kernel can block for ever, run in one work item per kind of wait, without
 * dynamos_lock.
 *
 * core/drain.c has the states.
 *
 * Context: process, workers of the queue `dynamos`. dynamos_drain_end() and
 * dynamos_drain_table() also run in system calls; dynamos_drain_kick() runs
 * anywhere but in an NMI.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include <dynamos/core/state.h>

#include "engine.h"

#define SOON msecs_to_jiffies(10)
#define LATER msecs_to_jiffies(100)
#define SELDOM HZ

static struct workqueue_struct *queue;
static void drain_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(tending, drain_work);

/* One kind of wait. It serves all that needed it when it began. */
struct pause {
	struct work_struct work;
	void (*wait)(void);
	u32 state; /* enum dynamos_pause; dynamos_lock */
};

static void wait_for_calls(void);
static void wait_for_text(void);
static void take_hooks(void);
static void take_patches(void);
static struct pause pauses[DYNAMOS_WAITS] = {
	[DYNAMOS_WAIT_CALLS] = {.wait = wait_for_calls},
	[DYNAMOS_WAIT_TEXT] = {.wait = wait_for_text},
	[DYNAMOS_WAIT_HOOKS] = {.wait = take_hooks},
	[DYNAMOS_WAIT_PATCHES] = {.wait = take_patches},
};

/* Tables that no version refers to any more. Those that are in this list when a
 * wait for calls begins are freed when it ends. */
static LIST_HEAD(old_tables);
static LIST_HEAD(freed_tables);

void dynamos_drain_kick(void)
{
	mod_delayed_work(queue, &tending, 0);
}

void dynamos_drain_table(struct dynamos_table *table)
{
	lockdep_assert_held(&dynamos_lock);
	if (!table)
		return;
	list_add(dynamos_table_link(table), &old_tables);
	dynamos_drain_kick();
}

static void step_pause(struct pause *p, u32 step)
{
	int next = dynamos_pause_next(p->state, step);

	lockdep_assert_held(&dynamos_lock);
	skep_assert(next >= 0);
	if (next >= 0)
		p->state = next;
}

static bool pause_over(u32 wait)
{
	return pauses[wait].state == DYNAMOS_PAUSE_OVER;
}

static void step_leaving(struct dynamos_engine *e, u32 step)
{
	int next = dynamos_leave_next(e->leave, step);

	lockdep_assert_held(&dynamos_lock);
	skep_assert(next >= 0);
	if (next < 0)
		return;
	e->leave = next;
	e->settling = false;
}

static bool update_settled(const struct dynamos_engine *e)
{
	return e->settling && pause_over(dynamos_leave_wait(e->leave));
}

static bool slot_settled(const struct dynamos_slot *s)
{
	return s->settling && pause_over(dynamos_retire_wait(s->retire));
}

void dynamos_drain_end(struct dynamos_update_state *u)
{
	char why[DYNAMOS_WHY];

	lockdep_assert_held(&dynamos_lock);
	if (atomic_read_acquire(&u->ending) != DYNAMOS_END_WRITTEN ||
	    u->engine->starting || dynamos_update_step(u, DYNAMOS_END, why))
		return;
	step_leaving(u->engine, u->class == DYNAMOS_TOGETHER
					? DYNAMOS_LEAVE_UNPATCH
					: DYNAMOS_LEAVE_SHUT);
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

/* Returns the time until the next poll, in jiffies. */
static unsigned long poll_entering(struct dynamos_update_state *u)
{
	struct dynamos_engine *e = u->engine;
	char why[DYNAMOS_WHY];

	if (dynamos_patch_entered(e->patch)) {
		dynamos_update_step(u, DYNAMOS_ENTERED, why);
		dynamos_event_add(u->name, DYNAMOS_ASKED, u->state, 0, "",
				  "all tasks completed the transition");
		return SELDOM;
	}
	if (time_after(jiffies, e->enter_until))
		undo_transition(u);
	return SOON;
}

/* Livepatch does not notify a patch that a cumulative one (klp_patch.replace)
 * replaces. */
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

/* No call is inside. A pinned update that was applied once keeps its reference:
 * code anywhere may have a pointer into its module, and may call it at any
 * time. */
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
	step_leaving(e, DYNAMOS_LEAVE_SETTLED);
	dynamos_update_step(u, DYNAMOS_DRAINED, why);
	dynamos_event_add(u->name, u->cause, u->state, 0, "", "left");
	put_update_module(u);
}

/* Returns the time until the next poll, in jiffies. */
static unsigned long poll_leaving(struct dynamos_update_state *u)
{
	struct dynamos_engine *e = u->engine;

	switch (e->leave) {
	case DYNAMOS_UNPATCHING:
		if (pauses[DYNAMOS_WAIT_PATCHES].state ==
			    DYNAMOS_PAUSE_RUNNING ||
		    !dynamos_patch_left(e->patch))
			return SOON;
		step_leaving(e, DYNAMOS_LEAVE_UNPATCHED);
		return MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_SHUT:
		if (!update_settled(e))
			return MAX_SCHEDULE_TIMEOUT;
		step_leaving(e, DYNAMOS_LEAVE_SETTLED);
		fallthrough;
	case DYNAMOS_DRAINING:
		if (dynamos_update_inside(u) || dynamos_group_left(u) ||
		    dynamos_stand_inside(u))
			return LATER;
		unlink_all(u);
		step_leaving(e, DYNAMOS_LEAVE_EMPTIED);
		return MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_UNLINKED:
		if (update_settled(e))
			finish_draining(u);
		return MAX_SCHEDULE_TIMEOUT;
	default:
		return LATER;
	}
}

static unsigned long poll_retiring(struct dynamos_slot *s)
{
	switch (s->retire) {
	case DYNAMOS_UNHOOKED:
		if (!slot_settled(s))
			return MAX_SCHEDULE_TIMEOUT;
		dynamos_slot_step(s, DYNAMOS_RETIRE_SETTLED);
		fallthrough;
	case DYNAMOS_EMPTYING:
		if (dynamos_version_inside(&s->kernel))
			return LATER;
		dynamos_slot_step(s, DYNAMOS_RETIRE_EMPTIED);
		return MAX_SCHEDULE_TIMEOUT;
	case DYNAMOS_EMPTY:
		if (slot_settled(s))
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

/* Polls everything once. */
static unsigned long poll_all(void)
{
	unsigned long next = MAX_SCHEDULE_TIMEOUT;
	struct dynamos_update_state *u;
	struct dynamos_slot *s;
	u32 n = 0, wait;

	list_for_each_entry(u, &dynamos_updates, link)
		next = min(next, look_at(u));
	while ((s = dynamos_slot_next(&n)))
		next = min(next, poll_retiring(s));
	for (wait = 0; wait < DYNAMOS_WAITS; wait++)
		step_pause(&pauses[wait], DYNAMOS_PAUSE_SEEN);
	return next;
}

static bool update_waits(const struct dynamos_update_state *u, u32 wait)
{
	return u->state == DYNAMOS_LEAVING &&
	       dynamos_leave_wait(u->engine->leave) == wait &&
	       (wait != DYNAMOS_WAIT_PATCHES ||
		!dynamos_patch_left(u->engine->patch));
}

/* Marks everything that the next wait of this kind serves; returns false if
 * nothing needs it. */
static bool mark_waiting(u32 wait)
{
	struct dynamos_update_state *u;
	struct dynamos_slot *s;
	bool any = false;
	u32 n = 0;

	if (wait == DYNAMOS_WAIT_CALLS) {
		any = !list_empty(&old_tables);
		list_splice_init(&old_tables, &freed_tables);
	}
	list_for_each_entry(u, &dynamos_updates, link) {
		if (!update_waits(u, wait))
			continue;
		u->engine->settling = true;
		any = true;
	}
	while ((s = dynamos_slot_next(&n))) {
		if (dynamos_retire_wait(s->retire) != wait)
			continue;
		s->settling = true;
		any = true;
	}
	return any;
}

static void run_pause(struct work_struct *work)
{
	struct pause *p = container_of(work, struct pause, work);

	p->wait();
	mutex_lock(&dynamos_lock);
	step_pause(p, DYNAMOS_PAUSE_END);
	mutex_unlock(&dynamos_lock);
	dynamos_drain_kick();
}

static void begin_pause(u32 wait)
{
	struct pause *p = &pauses[wait];

	if (p->state != DYNAMOS_PAUSE_IDLE || !mark_waiting(wait))
		return;
	step_pause(p, DYNAMOS_PAUSE_BEGIN);
	queue_work(queue, &p->work);
}

static void drain_work(struct work_struct *work)
{
	unsigned long next;
	u32 wait;

	mutex_lock(&dynamos_lock);
	next = poll_all();
	for (wait = DYNAMOS_NO_WAIT + 1; wait < DYNAMOS_WAITS; wait++)
		begin_pause(wait);
	mutex_unlock(&dynamos_lock);
	if (next != MAX_SCHEDULE_TIMEOUT)
		queue_delayed_work(queue, &tending, next);
}

static void wait_for_calls(void)
{
	dynamos_settle();
	dynamos_tables_free(&freed_tables);
}

/* Afterwards no task is preempted in the text that leads to a wrapper, nor in
 * what follows after a wrapper has counted an exit. */
static void wait_for_text(void)
{
	synchronize_rcu_tasks();
	synchronize_rcu_tasks_rude();
}

/* When ftrace removes a hook, it waits for each task and holds its locks
 * meanwhile. So this waits for each task first, without locks. A waiting APPLY
 * goes first; then this starts again. */
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

/* Meanwhile poll_leaving() frees no patch. */
static void take_patches(void)
{
	struct dynamos_patch *patch[DYNAMOS_SLOTS];
	struct dynamos_update_state *u;
	u32 i, n = 0;

	mutex_lock(&dynamos_lock);
	list_for_each_entry(u, &dynamos_updates, link)
		if (n < DYNAMOS_SLOTS && update_waits(u, DYNAMOS_WAIT_PATCHES))
			patch[n++] = u->engine->patch;
	mutex_unlock(&dynamos_lock);
	for (i = 0; i < n; i++)
		dynamos_patch_disable(patch[i]);
}

int dynamos_drain_init(void)
{
	u32 wait;

	for (wait = 0; wait < DYNAMOS_WAITS; wait++)
		INIT_WORK(&pauses[wait].work, run_pause);
	queue = alloc_workqueue("dynamos", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

/* No update is left, and each slot in use pins the module, so only tables
 * remain. The end of a wait kicks the work once more, so it is cancelled
 * twice. */
void dynamos_drain_exit(void)
{
	u32 wait;

	cancel_delayed_work_sync(&tending);
	for (wait = 0; wait < DYNAMOS_WAITS; wait++)
		flush_work(&pauses[wait].work);
	cancel_delayed_work_sync(&tending);
	destroy_workqueue(queue);
	if (!list_empty(&old_tables))
		dynamos_settle();
	dynamos_tables_free(&old_tables);
}
