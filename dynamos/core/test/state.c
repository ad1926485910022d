// SPDX-License-Identifier: MIT
/* The states of an update: what the drawing allows, and nothing else. */
#include <string.h>

#include <skep/dynamos.h>

#include "../state.h"
#include "tests/tap.h"

static int next_state(u32 state, enum dynamos_step step)
{
	return dynamos_state_next(state, step);
}

static void test_drawing(void)
{
	tap_ok(next_state(DYNAMOS_LOADED, DYNAMOS_BEGIN) == DYNAMOS_TRIAL &&
		       next_state(DYNAMOS_TRIAL, DYNAMOS_CONFIRM) ==
			       DYNAMOS_COMMITTED,
	       "state: APPLY, then COMMIT");
	tap_ok(next_state(DYNAMOS_LOADED, DYNAMOS_ENTER) == DYNAMOS_ENTERING &&
		       next_state(DYNAMOS_ENTERING, DYNAMOS_ENTERED) ==
			       DYNAMOS_TRIAL,
	       "state: an update of class together enters before it is on "
	       "trial");
	tap_ok(next_state(DYNAMOS_ENTERING, DYNAMOS_END) == DYNAMOS_LEAVING &&
		       next_state(DYNAMOS_TRIAL, DYNAMOS_END) ==
			       DYNAMOS_LEAVING &&
		       next_state(DYNAMOS_COMMITTED, DYNAMOS_END) ==
			       DYNAMOS_LEAVING,
	       "state: an update in force can be reverted");
	tap_ok(next_state(DYNAMOS_LEAVING, DYNAMOS_DRAINED) == DYNAMOS_LOADED,
	       "state: a drained update is loaded again");
}

static void test_removal(void)
{
	u32 s;

	tap_ok(next_state(DYNAMOS_LOADED, DYNAMOS_REMOVE) == 0,
	       "state: a loaded update can be removed");
	for (s = DYNAMOS_ENTERING; s <= DYNAMOS_LEAVING; s++)
		if (next_state(s, DYNAMOS_REMOVE) != -LINUX_EBUSY)
			break;
	tap_ok(s == DYNAMOS_LEAVING + 1,
	       "state: no update in another state can be removed");
}

/* Every step from every state: the allowed ones are counted, so that one more
 * must be meant. */
static void test_rest(void)
{
	u32 s, step, allowed = 0, stays = 0;
	int n;

	for (s = DYNAMOS_LOADED; s <= DYNAMOS_LEAVING; s++) {
		for (step = 0; step < DYNAMOS_STEPS; step++) {
			n = next_state(s, step);
			allowed += n >= 0;
			stays += n == (int)s;
		}
	}
	tap_ok(allowed == 9, "state: there are exactly nine transitions");
	tap_ok(!stays, "state: no transition leads to its own state");
	tap_ok(next_state(DYNAMOS_TRIAL, DYNAMOS_BEGIN) == -LINUX_EALREADY &&
		       next_state(DYNAMOS_LEAVING, DYNAMOS_BEGIN) ==
			       -LINUX_EBUSY,
	       "state: applying twice and applying while leaving are refused");
	tap_ok(next_state(0, DYNAMOS_BEGIN) == -LINUX_EINVAL &&
		       next_state(6, DYNAMOS_BEGIN) == -LINUX_EINVAL &&
		       next_state(DYNAMOS_LOADED, DYNAMOS_STEPS) ==
			       -LINUX_EINVAL &&
		       next_state(~0u, (enum dynamos_step) ~0u) ==
			       -LINUX_EINVAL,
	       "state: unknown states and unknown steps are refused");
	tap_ok(!strcmp(dynamos_state_name(DYNAMOS_LOADED), "loaded") &&
		       !strcmp(dynamos_state_name(DYNAMOS_LEAVING),
			       "leaving") &&
		       !strcmp(dynamos_state_name(DYNAMOS_TRIAL), "on trial") &&
		       !strcmp(dynamos_state_name(77), "unknown"),
	       "state: has a name");
}

int main(void)
{
	test_drawing();
	test_removal();
	test_rest();
	return tap_done();
}
