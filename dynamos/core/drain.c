// SPDX-License-Identifier: MIT
#include "drain.h"

/* A table holds the state after a step plus one: a step that it does not name
 * is not allowed in that state. */
#define TO(state) ((state) + 1)

static const u8 leave_next[DYNAMOS_LEAVES][DYNAMOS_LEAVE_STEPS] = {
	[DYNAMOS_STAYS] = {[DYNAMOS_LEAVE_SHUT] = TO(DYNAMOS_SHUT),
			   [DYNAMOS_LEAVE_UNPATCH] = TO(DYNAMOS_UNPATCHING)},
	[DYNAMOS_UNPATCHING] = {[DYNAMOS_LEAVE_UNPATCHED] = TO(DYNAMOS_SHUT)},
	[DYNAMOS_SHUT] = {[DYNAMOS_LEAVE_SETTLED] = TO(DYNAMOS_DRAINING)},
	[DYNAMOS_DRAINING] = {[DYNAMOS_LEAVE_EMPTIED] = TO(DYNAMOS_UNLINKED)},
	[DYNAMOS_UNLINKED] = {[DYNAMOS_LEAVE_SETTLED] = TO(DYNAMOS_STAYS)},
};

static const u8 retire_next[DYNAMOS_RETIRES][DYNAMOS_RETIRE_STEPS] = {
	[DYNAMOS_UNUSED] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT)},
	[DYNAMOS_KEPT] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT),
			  [DYNAMOS_RETIRE_RELEASE] = TO(DYNAMOS_UNNEEDED)},
	/* RELEASE again: an APPLY had reserved the slot and failed. */
	[DYNAMOS_UNNEEDED] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT),
			      [DYNAMOS_RETIRE_RELEASE] = TO(DYNAMOS_UNNEEDED),
			      [DYNAMOS_RETIRE_UNHOOK] = TO(DYNAMOS_UNHOOKING)},
	/* The caller holds dynamos_hooks, so the slot cannot be reserved
	 * meanwhile. */
	[DYNAMOS_UNHOOKING] = {[DYNAMOS_RETIRE_UNHOOKED] = TO(DYNAMOS_UNHOOKED),
			       [DYNAMOS_RETIRE_REFUSED] = TO(DYNAMOS_UNNEEDED)},
	[DYNAMOS_UNHOOKED] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT),
			      [DYNAMOS_RETIRE_SETTLED] = TO(DYNAMOS_EMPTYING)},
	[DYNAMOS_EMPTYING] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT),
			      [DYNAMOS_RETIRE_EMPTIED] = TO(DYNAMOS_EMPTY)},
	[DYNAMOS_EMPTY] = {[DYNAMOS_RETIRE_KEEP] = TO(DYNAMOS_KEPT),
			   [DYNAMOS_RETIRE_SETTLED] = TO(DYNAMOS_UNUSED)},
};

static const u8 pause_next[DYNAMOS_PAUSES][DYNAMOS_PAUSE_STEPS] = {
	[DYNAMOS_PAUSE_IDLE] = {[DYNAMOS_PAUSE_BEGIN] =
					TO(DYNAMOS_PAUSE_RUNNING),
				[DYNAMOS_PAUSE_SEEN] = TO(DYNAMOS_PAUSE_IDLE)},
	[DYNAMOS_PAUSE_RUNNING] = {[DYNAMOS_PAUSE_END] = TO(DYNAMOS_PAUSE_OVER),
				   [DYNAMOS_PAUSE_SEEN] =
					   TO(DYNAMOS_PAUSE_RUNNING)},
	[DYNAMOS_PAUSE_OVER] = {[DYNAMOS_PAUSE_SEEN] = TO(DYNAMOS_PAUSE_IDLE)},
};

static int state_of(u8 entry)
{
	return entry ? entry - 1 : -DYNAMOS_DRAIN_EINVAL;
}

int dynamos_leave_next(u32 leave, u32 step)
{
	if (leave >= DYNAMOS_LEAVES || step >= DYNAMOS_LEAVE_STEPS)
		return -DYNAMOS_DRAIN_EINVAL;
	return state_of(leave_next[leave][step]);
}

int dynamos_retire_next(u32 retire, u32 step)
{
	if (retire >= DYNAMOS_RETIRES || step >= DYNAMOS_RETIRE_STEPS)
		return -DYNAMOS_DRAIN_EINVAL;
	return state_of(retire_next[retire][step]);
}

int dynamos_pause_next(u32 pause, u32 step)
{
	if (pause >= DYNAMOS_PAUSES || step >= DYNAMOS_PAUSE_STEPS)
		return -DYNAMOS_DRAIN_EINVAL;
	return state_of(pause_next[pause][step]);
}

u32 dynamos_leave_wait(u32 leave)
{
	switch (leave) {
	case DYNAMOS_UNPATCHING:
		return DYNAMOS_WAIT_PATCHES;
	case DYNAMOS_SHUT:
	case DYNAMOS_UNLINKED:
		return DYNAMOS_WAIT_CALLS;
	default:
		return DYNAMOS_NO_WAIT;
	}
}

u32 dynamos_retire_wait(u32 retire)
{
	switch (retire) {
	case DYNAMOS_UNNEEDED:
		return DYNAMOS_WAIT_HOOKS;
	case DYNAMOS_UNHOOKED:
	case DYNAMOS_EMPTY:
		return DYNAMOS_WAIT_TEXT;
	default:
		return DYNAMOS_NO_WAIT;
	}
}

int dynamos_retire_hooked(u32 retire)
{
	return retire >= DYNAMOS_KEPT && retire <= DYNAMOS_UNHOOKING;
}
