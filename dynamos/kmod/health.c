// SPDX-License-Identifier: GPL-2.0-only
/*
 * Automatic reverts: when the trial's timer expires before COMMIT, and when the
 * new version has more errors or a longer median than the older one, which runs
 * at the same time. Each applied update is checked four times a second under
 * dynamos_lock; a check that does not get the lock is skipped.
 *
 * Two tallies per version show how long calls have been inside. New calls count
 * in one tally; when no call of the other one is inside, the two are swapped. A
 * call that is still counted in the other one has been inside since the last
 * swap.
 *
 * Context: the checks run in a worker, the timer in a softirq. All else runs in
 * process context under dynamos_lock.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include <dynamos/core/health.h>

#include "slot.h"
#include "stack.h"

#define LOOK (HZ / 4)

/* One function of an update. */
struct place {
	struct dynamos_sum newer, older; /* at the start of the comparison */
	u64 swapped;			 /* ns; when the tallies were swapped */
	bool is_reported;		 /* stuck calls were reported */
};

struct dynamos_watch {
	struct dynamos_update_state *update;
	struct timer_list timer;
	bool armed;
	u32 confirm_ms;
	struct delayed_work look;
	struct place place[];
};

static void sum_of(const struct dynamos_tally *tally, struct dynamos_sum *sum)
{
	sum->calls = tally->out;
	sum->errors = tally->errors;
	memcpy(sum->latency, tally->latency, sizeof(sum->latency));
}

static void sum_versions(const struct dynamos_version *version,
			 struct dynamos_sum *newer, struct dynamos_sum *older)
{
	struct dynamos_tally tally;

	dynamos_version_sum(version, &tally);
	sum_of(&tally, newer);
	dynamos_slot_older(version, &tally);
	sum_of(&tally, older);
}

static void say_verdict(const struct dynamos_verdict *verdict,
			const struct dynamos_version *version, char *text)
{
	const char *symbol = version->function->symbol;

	if (verdict->cause == DYNAMOS_ERRORS)
		snprintf(text, DYNAMOS_WHY,
			 "%s: %llu of 1000 calls fail, %llu of the older "
			 "version's",
			 symbol, verdict->newer, verdict->older);
	else
		snprintf(text, DYNAMOS_WHY,
			 "%s: half of the calls take more than %llu ns, the "
			 "older version's %llu ns",
			 symbol, verdict->newer, verdict->older);
}

static void compare_versions(struct dynamos_watch *watch, u32 i)
{
	const struct dynamos_version *version = watch->update->version[i];
	struct dynamos_update_state *update = watch->update;
	struct place *place = &watch->place[i];
	struct dynamos_sum newer, older;
	struct dynamos_verdict verdict;
	char text[DYNAMOS_WHY];

	sum_versions(version, &newer, &older);
	dynamos_health_since(&newer, &place->newer);
	dynamos_health_since(&older, &place->older);
	dynamos_health_judge(&update->health, &newer, &older, &verdict);
	if (!verdict.cause)
		return;
	say_verdict(&verdict, version, text);
	dynamos_update_end(update, verdict.cause, NULL, text);
}

/* A lost call can hide a stuck one, because it is not known in which tally the
 * lost call is counted. */
static void find_stuck(struct dynamos_watch *watch, u32 i)
{
	struct dynamos_version *version = watch->update->version[i];
	struct dynamos_update_state *update = watch->update;
	struct dynamos_tally __percpu *tally = version->other;
	struct place *place = &watch->place[i];
	u64 now = ktime_get_boot_fast_ns(), inside;
	struct dynamos_tally sum;
	char text[DYNAMOS_WHY];

	if (now - place->swapped < update->health.stuck)
		return;
	dynamos_tally_sum(tally, &sum);
	inside = sum.in - sum.out;
	if (inside <= atomic64_read(&version->lost)) {
		version->other = version->tally;
		WRITE_ONCE(version->tally, tally);
		place->swapped = now;
		place->is_reported = false;
	} else if (!place->is_reported) {
		place->is_reported = true;
		snprintf(text, sizeof(text),
			 "%s: %llu stuck for more than %llu ms",
			 version->function->symbol,
			 inside - atomic64_read(&version->lost),
			 (now - place->swapped) / NSEC_PER_MSEC);
		dynamos_event_add(update->name, DYNAMOS_STUCK, update->state, 0,
				  NULL, text);
		dynamos_stack_seek();
	}
}

static void health_work(struct work_struct *work)
{
	struct dynamos_watch *watch =
		container_of(to_delayed_work(work), struct dynamos_watch, look);
	struct dynamos_update_state *update = watch->update;
	u32 i;

	if (mutex_trylock(&dynamos_lock)) {
		for (i = 0; i < update->count; i++) {
			if (!update->version[i]->call)
				continue;
			if (update->state == DYNAMOS_TRIAL ||
			    update->state == DYNAMOS_COMMITTED)
				compare_versions(watch, i);
			if (update->health.stuck)
				find_stuck(watch, i);
		}
		mutex_unlock(&dynamos_lock);
	}
	queue_delayed_work(system_unbound_wq, &watch->look, LOOK);
}

/* A timer, so that a fault elsewhere cannot delay it. */
static void not_confirmed(struct timer_list *timer)
{
	struct dynamos_watch *watch =
		container_of(timer, struct dynamos_watch, timer);
	char text[64];

	snprintf(text, sizeof(text), "not committed within %u ms",
		 watch->confirm_ms);
	dynamos_update_end(watch->update, DYNAMOS_UNCONFIRMED, NULL, text);
}

void dynamos_watch_anew(struct dynamos_update_state *update)
{
	struct dynamos_watch *watch = update->watch;
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	for (i = 0; i < update->count; i++)
		sum_versions(update->version[i], &watch->place[i].newer,
			     &watch->place[i].older);
}

int dynamos_watch_begin(struct dynamos_update_state *update, u32 confirm_ms,
			char *why, size_t room)
{
	const char *wrong = dynamos_health_check(&update->health);
	struct dynamos_watch *watch;
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	if (wrong) {
		snprintf(why, room, "%s", wrong);
		return -EINVAL;
	}
	watch = kvzalloc(struct_size(watch, place, update->count), GFP_KERNEL);
	if (!watch) {
		snprintf(why, room, "no memory for its health check");
		return -ENOMEM;
	}
	watch->update = update;
	for (i = 0; i < update->count; i++)
		watch->place[i].swapped = ktime_get_boot_fast_ns();
	update->watch = watch;
	dynamos_watch_anew(update);
	timer_setup(&watch->timer, not_confirmed, 0);
	INIT_DELAYED_WORK(&watch->look, health_work);
	queue_delayed_work(system_unbound_wq, &watch->look, LOOK);
	if (!confirm_ms)
		return 0;
	watch->armed = true;
	watch->confirm_ms = confirm_ms;
	mod_timer(&watch->timer, jiffies + msecs_to_jiffies(confirm_ms));
	return 0;
}

void dynamos_watch_commit(struct dynamos_update_state *update)
{
	lockdep_assert_held(&dynamos_lock);
	update->watch->armed = false;
	del_timer_sync(&update->watch->timer);
}

s64 dynamos_watch_left(struct dynamos_update_state *update)
{
	struct dynamos_watch *watch = update->watch;
	long left;

	lockdep_assert_held(&dynamos_lock);
	if (!watch || !watch->armed)
		return -1;
	left = watch->timer.expires - jiffies;
	return left > 0 ? jiffies_to_msecs(left) : 0;
}

/* health_work() only tries dynamos_lock, so this can wait for it with the lock
 * held. */
void dynamos_watch_drop(struct dynamos_update_state *update)
{
	struct dynamos_watch *watch = update->watch;

	lockdep_assert_held(&dynamos_lock);
	if (!watch)
		return;
	del_timer_sync(&watch->timer);
	cancel_delayed_work_sync(&watch->look);
	update->watch = NULL;
	kvfree(watch);
}

int dynamos_watch_init(void)
{
	int err = dynamos_stack_init();

	if (err)
		return err;
	err = dynamos_report_init();
	if (err)
		dynamos_stack_exit();
	return err;
}

void dynamos_watch_exit(void)
{
	dynamos_report_exit();
	dynamos_stack_exit();
}
