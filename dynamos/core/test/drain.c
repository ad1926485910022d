// SPDX-License-Identifier: MIT
/* How updates leave and slots become free: what the drawing allows, and nothing
 * else. */
#include "../drain.h"
#include "tests/tap.h"

#define NEVER (-DYNAMOS_DRAIN_EINVAL)

/* Whether these steps, up to a negative one, lead from the first state through
 * the states beside them. */
static int way_leads(int (*next)(u32 state, u32 step), u32 state,
		     const int way[][2])
{
	for (; way[0][0] >= 0; way++) {
		if (next(state, way[0][0]) != way[0][1])
			return 0;
		state = way[0][1];
	}
	return 1;
}

static u32 steps_allowed(int (*next)(u32 state, u32 step), u32 states,
			 u32 steps)
{
	u32 state, step, n = 0;

	for (state = 0; state <= states; state++)
		for (step = 0; step <= steps; step++)
			n += next(state, step) != NEVER;
	return n;
}

static void test_leaving(void)
{
	static const int alone[][2] = {
		{DYNAMOS_LEAVE_SHUT, DYNAMOS_SHUT},
		{DYNAMOS_LEAVE_SETTLED, DYNAMOS_DRAINING},
		{DYNAMOS_LEAVE_EMPTIED, DYNAMOS_UNLINKED},
		{DYNAMOS_LEAVE_SETTLED, DYNAMOS_STAYS},
		{-1}};
	static const int together[][2] = {
		{DYNAMOS_LEAVE_UNPATCH, DYNAMOS_UNPATCHING},
		{DYNAMOS_LEAVE_UNPATCHED, DYNAMOS_SHUT},
		{-1}};

	tap_ok(way_leads(dynamos_leave_next, DYNAMOS_STAYS, alone),
	       "drain: an update shuts, settles, drains, settles and has left");
	tap_ok(way_leads(dynamos_leave_next, DYNAMOS_STAYS, together),
	       "drain: an update of class together switches tasks back first");
	tap_ok(dynamos_leave_next(DYNAMOS_SHUT, DYNAMOS_LEAVE_EMPTIED) ==
			       NEVER &&
		       dynamos_leave_next(DYNAMOS_SHUT, DYNAMOS_LEAVE_SHUT) ==
			       NEVER,
	       "drain: callers are counted after a wait, not before");
	tap_ok(steps_allowed(dynamos_leave_next, DYNAMOS_LEAVES,
			     DYNAMOS_LEAVE_STEPS) == 6,
	       "drain: an update's end has exactly six steps");
}

static void test_retiring(void)
{
	static const int cycle[][2] = {
		{DYNAMOS_RETIRE_KEEP, DYNAMOS_KEPT},
		{DYNAMOS_RETIRE_RELEASE, DYNAMOS_UNNEEDED},
		{DYNAMOS_RETIRE_UNHOOK, DYNAMOS_UNHOOKING},
		{DYNAMOS_RETIRE_REFUSED, DYNAMOS_UNNEEDED},
		{DYNAMOS_RETIRE_UNHOOK, DYNAMOS_UNHOOKING},
		{DYNAMOS_RETIRE_UNHOOKED, DYNAMOS_UNHOOKED},
		{DYNAMOS_RETIRE_SETTLED, DYNAMOS_EMPTYING},
		{DYNAMOS_RETIRE_EMPTIED, DYNAMOS_EMPTY},
		{DYNAMOS_RETIRE_SETTLED, DYNAMOS_UNUSED},
		{-1}};
	u32 s, kept = 0;

	tap_ok(way_leads(dynamos_retire_next, DYNAMOS_UNUSED, cycle),
	       "drain: a slot goes from free to free");
	for (s = DYNAMOS_UNUSED; s < DYNAMOS_RETIRES; s++)
		kept += dynamos_retire_next(s, DYNAMOS_RETIRE_KEEP) ==
			DYNAMOS_KEPT;
	tap_ok(kept == DYNAMOS_RETIRES - 1 &&
		       dynamos_retire_next(DYNAMOS_UNHOOKING,
					   DYNAMOS_RETIRE_KEEP) == NEVER,
	       "drain: a slot can be kept again unless its hook is being "
	       "removed");
	tap_ok(dynamos_retire_next(DYNAMOS_UNHOOKED, DYNAMOS_RETIRE_EMPTIED) ==
			       NEVER &&
		       dynamos_retire_next(DYNAMOS_EMPTYING,
					   DYNAMOS_RETIRE_SETTLED) == NEVER,
	       "drain: a slot becomes empty only between two waits");
	tap_ok(steps_allowed(dynamos_retire_next, DYNAMOS_RETIRES,
			     DYNAMOS_RETIRE_STEPS) == 14,
	       "drain: a slot's end has exactly fourteen steps");
}

static void test_waiting(void)
{
	static const u32 leave[] = {DYNAMOS_NO_WAIT,	DYNAMOS_WAIT_PATCHES,
				    DYNAMOS_WAIT_CALLS, DYNAMOS_NO_WAIT,
				    DYNAMOS_WAIT_CALLS, DYNAMOS_NO_WAIT};
	static const u32 retire[] = {DYNAMOS_NO_WAIT,	 DYNAMOS_NO_WAIT,
				     DYNAMOS_WAIT_HOOKS, DYNAMOS_NO_WAIT,
				     DYNAMOS_WAIT_TEXT,	 DYNAMOS_NO_WAIT,
				     DYNAMOS_WAIT_TEXT,	 DYNAMOS_NO_WAIT};
	u32 s, right = 0, settles = 0;

	for (s = 0; s <= DYNAMOS_LEAVES; s++)
		right += dynamos_leave_wait(s) == leave[s];
	for (s = 0; s <= DYNAMOS_RETIRES; s++)
		right += dynamos_retire_wait(s) == retire[s];
	tap_ok(right == DYNAMOS_LEAVES + DYNAMOS_RETIRES + 2,
	       "drain: each state has its kind of wait");
	for (s = 0; s < DYNAMOS_LEAVES; s++)
		settles +=
			(dynamos_leave_wait(s) == DYNAMOS_WAIT_CALLS) ==
			(dynamos_leave_next(s, DYNAMOS_LEAVE_SETTLED) != NEVER);
	for (s = 0; s < DYNAMOS_RETIRES; s++)
		settles += (dynamos_retire_wait(s) == DYNAMOS_WAIT_TEXT) ==
			   (dynamos_retire_next(s, DYNAMOS_RETIRE_SETTLED) !=
			    NEVER);
	tap_ok(settles == DYNAMOS_LEAVES + DYNAMOS_RETIRES,
	       "drain: only states that wait for calls or text settle");
	for (right = s = 0; s <= DYNAMOS_RETIRES; s++)
		right |= (u32) !!dynamos_retire_hooked(s) << s;
	tap_ok(right == (1u << DYNAMOS_KEPT | 1u << DYNAMOS_UNNEEDED |
			 1u << DYNAMOS_UNHOOKING),
	       "drain: a slot is hooked until ftrace has let it go");
}

static void test_pauses(void)
{
	static const int once[][2] = {
		{DYNAMOS_PAUSE_SEEN, DYNAMOS_PAUSE_IDLE},
		{DYNAMOS_PAUSE_BEGIN, DYNAMOS_PAUSE_RUNNING},
		{DYNAMOS_PAUSE_SEEN, DYNAMOS_PAUSE_RUNNING},
		{DYNAMOS_PAUSE_END, DYNAMOS_PAUSE_OVER},
		{DYNAMOS_PAUSE_SEEN, DYNAMOS_PAUSE_IDLE},
		{-1}};

	tap_ok(way_leads(dynamos_pause_next, DYNAMOS_PAUSE_IDLE, once),
	       "drain: a wait begins, ends, and its end is noticed");
	tap_ok(dynamos_pause_next(DYNAMOS_PAUSE_RUNNING, DYNAMOS_PAUSE_BEGIN) ==
			       NEVER &&
		       dynamos_pause_next(DYNAMOS_PAUSE_OVER,
					  DYNAMOS_PAUSE_BEGIN) == NEVER,
	       "drain: a wait begins again only after its end was noticed");
	tap_ok(steps_allowed(dynamos_pause_next, DYNAMOS_PAUSES,
			     DYNAMOS_PAUSE_STEPS) == 5,
	       "drain: a wait has exactly five steps");
}

int main(void)
{
	test_leaving();
	test_retiring();
	test_waiting();
	test_pauses();
	return tap_done();
}
