/* SPDX-License-Identifier: MIT */
/*
 * A newer update of the functions of an older one: above it, instead of it, and
 * the way back. dynamos_next changes more functions than dynamos_hand. The file
 * that includes this one says where both are, and counts the tests.
 */
#ifndef TESTS_VM_GUEST_DYNAMOS_SUPERSEDE_H
#define TESTS_VM_GUEST_DYNAMOS_SUPERSEDE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>

#include "dynamos_engine.h"
#include "dynamos_use.h"
#include "dynamos_want.h"
#include "tests/tap.h"

#define HAND "dynamos_hand"
#define NEXT "dynamos_next"

static const char *hand_file, *next_file;
static const struct dynamos_policy nobody, all = {.otherwise = 1};

static void select_hand(void)
{
	use_turn(HAND, hand_file);
}

static void select_next(void)
{
	use_turn(NEXT, next_file);
}

/* What is applied after the newer one is not older, and stays. */
static inline void test_supersede_above(void)
{
	struct dynamos_info info;

	select_next();
	want_ok(use_revert() ?: use_until(DYNAMOS_LOADED),
		"supersede: the committed one is reverted");
	want_ok(apply_to(&all, DYNAMOS_SUPERSEDE),
		"supersede: it is applied again");
	select_hand();
	want_ok(apply_to(&all, 0), "supersede: another one is put above it");
	select_next();
	want_ok(use_commit(), "supersede: the lower one is committed");
	select_hand();
	tap_ok(!use_info(&info) && info.state == DYNAMOS_TRIAL &&
		       get_answer() == 4242,
	       "engine: supersede: the one above stays in force");
	want_ok(use_revert() ?: use_until(DYNAMOS_LOADED),
		"supersede: the one above is reverted");
}

/* The newer one is reverted in its trial, applied again and committed. */
static inline void test_supersede_trial(void)
{
	struct dynamos_info info;

	want_ok(apply_to(&all, DYNAMOS_SUPERSEDE),
		"supersede: replaces the older one");
	tap_ok(get_answer() == 4343,
	       "engine: supersede: all take the newer one");
	select_hand();
	tap_ok(!use_info(&info) && info.state == DYNAMOS_TRIAL,
	       "engine: supersede: the older one stays during the trial");
	select_next();
	want_ok(use_revert() ?: use_until(DYNAMOS_LOADED),
		"supersede: the newer one is reverted in its trial");
	tap_ok(get_answer() == 4242,
	       "engine: supersede: the older one answers again");
	want_ok(apply_to(&all, DYNAMOS_SUPERSEDE) ?: use_commit(),
		"supersede: applied again without being removed, committed");
	select_hand();
	want_ok(use_until(DYNAMOS_LOADED), "supersede: the older one has left");
	tap_ok(!use_info(&info) && strstr(info.end, NEXT) &&
		       info.cause == DYNAMOS_SUPERSEDED && get_answer() == 4343,
	       "engine: supersede: the older one names what superseded it");
}

/* Back to the older one, which changes fewer functions, and forth again after a
 * lease that ended: at each step one of both answers. */
static inline void test_supersede_back(void)
{
	static struct dynamos_policy lapsed = {.rules = 1};

	lapsed.rule[0] = (struct dynamos_rule){
		.terms = DYNAMOS_WINDOW, .choice = 1, .until = 1};
	want_ok(apply_to(&nobody, DYNAMOS_SUPERSEDE | DYNAMOS_BACK),
		"supersede: on the way back fewer functions are enough");
	tap_ok(get_answer() == 4343,
	       "engine: supersede: the newer one stays until the commit");
	want_ok(use_commit_for(&all), "supersede: policy and commit in one");
	tap_ok(get_answer() == 4242, "engine: supersede: the older is back");
	select_next();
	want_ok(use_until(DYNAMOS_LOADED), "supersede: the newer has left");
	want_ok(apply_to(&lapsed, DYNAMOS_SUPERSEDE),
		"supersede: applied again, with a lease that ended");
	want_is(use_commit(), -EINVAL, "supersede: no commit with a window");
	want_is(use_commit_for(&lapsed), -EINVAL,
		"supersede: no commit for a window");
	tap_ok(strstr(use_why, "window") && get_answer() == 4242,
	       "engine: supersede: after the lease the older one answers");
	want_ok(use_commit_for(&all), "supersede: committed for all");
	want_ok(use_commit_for(&all), "supersede: a repetition is harmless");
	select_hand();
	want_ok(use_until(DYNAMOS_LOADED), "supersede: the older left again");
	tap_ok(get_answer() == 4343, "engine: supersede: the newer is back");
}

/* A newer update of the same functions. */
/* The files of the two modules are those of the whole test. */
static inline void test_supersede(void)
{
	struct canary canary;
	struct dynamos_policy only;
	long mine = get_answer();

	use_canary(&canary);
	select_hand();
	want_ok(use_load("one"), "supersede: the older one loads");
	want_ok(apply_to(&all, 0), "supersede: the older one is applied");
	select_next();
	want_ok(use_load("two"), "supersede: the newer one loads");
	use_only(&only, canary.pid);
	want_ok(apply_to(&only, 0),
		"supersede: the newer one is on top, for one");
	tap_ok(use_call(&canary) == 4343 && get_answer() == 4242,
	       "engine: supersede: other processes take the older one");
	want_ok(use_revert(), "supersede: the newer one is reverted");
	want_ok(use_until(DYNAMOS_LOADED), "supersede: the newer one has left");
	tap_ok(use_call(&canary) == 4242,
	       "engine: supersede: the older one is in force again");
	test_supersede_trial();
	want_is(apply_to(&all, DYNAMOS_SUPERSEDE), -EINVAL,
		"supersede: an update that changes more functions is not "
		"replaced");
	tap_ok(!!strstr(use_why, NEXT), "engine: supersede: function is named");
	test_supersede_back();
	test_supersede_above();
	want_ok(use_unload(), "supersede: the older one unloads");
	select_next();
	end_update("supersede");
	tap_ok(get_answer() == mine, "engine: supersede: no trace is left");
	use_end(&canary);
}

#endif
