/* SPDX-License-Identifier: MIT */
/*
 * How an update drains, how the slot of a function becomes free, and what each
 * state waits for. docs/design/dynamos.md draws the states.
 */
#ifndef DYNAMOS_DRAIN_H
#define DYNAMOS_DRAIN_H

#include <skep/types.h>

/* The progress of an update in the state `leaving`. */
enum dynamos_leave {
	DYNAMOS_STAYS,	    /* not leaving */
	DYNAMOS_UNPATCHING, /* class together: the reverse transition is in
			       progress */
	DYNAMOS_SHUT,	    /* gets no new calls */
	DYNAMOS_DRAINING,   /* every call that chose it is counted */
	DYNAMOS_UNLINKED,   /* no call inside, removed from all chains */
	DYNAMOS_LEAVES
};

enum dynamos_leave_step {
	DYNAMOS_LEAVE_SHUT,	 /* the update ends */
	DYNAMOS_LEAVE_UNPATCH,	 /* the update ends, class together */
	DYNAMOS_LEAVE_UNPATCHED, /* livepatch has released it */
	DYNAMOS_LEAVE_SETTLED,	 /* the wait of this state is over */
	DYNAMOS_LEAVE_EMPTIED,	 /* no call is inside */
	DYNAMOS_LEAVE_STEPS
};

/* The progress of a slot that no update needs. */
enum dynamos_retire {
	DYNAMOS_UNUSED,
	DYNAMOS_KEPT,	   /* an update needs it */
	DYNAMOS_UNNEEDED,  /* still hooked */
	DYNAMOS_UNHOOKING, /* ftrace removes the hook */
	DYNAMOS_UNHOOKED,  /* no new calls arrive */
	DYNAMOS_EMPTYING,  /* every call that arrived is counted */
	DYNAMOS_EMPTY,	   /* no call is in the original function */
	DYNAMOS_RETIRES
};

enum dynamos_retire_step {
	DYNAMOS_RETIRE_KEEP,	/* an update takes the slot */
	DYNAMOS_RETIRE_RELEASE, /* no update is in its chain */
	DYNAMOS_RETIRE_UNHOOK,
	DYNAMOS_RETIRE_UNHOOKED,
	DYNAMOS_RETIRE_REFUSED, /* ftrace keeps the hook */
	DYNAMOS_RETIRE_SETTLED, /* the wait of this state is over */
	DYNAMOS_RETIRE_EMPTIED, /* no call is in the original function */
	DYNAMOS_RETIRE_STEPS
};

/* What a state waits for. At most one wait of each kind is in progress; it
 * serves all updates and slots that needed it when it began. */
enum dynamos_wait {
	DYNAMOS_NO_WAIT,
	DYNAMOS_WAIT_CALLS,   /* each call that chose is counted */
	DYNAMOS_WAIT_TEXT,    /* no task is in text that leads to a wrapper */
	DYNAMOS_WAIT_HOOKS,   /* ftrace removes hooks */
	DYNAMOS_WAIT_PATCHES, /* livepatch begins to remove patches */
	DYNAMOS_WAITS
};

enum dynamos_pause {
	DYNAMOS_PAUSE_IDLE,
	DYNAMOS_PAUSE_RUNNING,
	DYNAMOS_PAUSE_OVER, /* its waiters have not moved on yet */
	DYNAMOS_PAUSES
};

enum dynamos_pause_step {
	DYNAMOS_PAUSE_BEGIN,
	DYNAMOS_PAUSE_END,
	DYNAMOS_PAUSE_SEEN, /* all its waiters have moved on */
	DYNAMOS_PAUSE_STEPS
};

/* Ending an update, before it is leaving. */
enum dynamos_ending {
	DYNAMOS_NOT_ENDING,
	DYNAMOS_END_CLAIMED, /* the reason is being written */
	DYNAMOS_END_WRITTEN
};

/* The state that follows, or -DYNAMOS_DRAIN_EINVAL. */
#define DYNAMOS_DRAIN_EINVAL 22
int dynamos_leave_next(u32 leave, u32 step);
int dynamos_retire_next(u32 retire, u32 step);
int dynamos_pause_next(u32 pause, u32 step);

/* enum dynamos_wait */
u32 dynamos_leave_wait(u32 leave);
u32 dynamos_retire_wait(u32 retire);

/* Whether calls can still arrive through the slot's hook. */
int dynamos_retire_hooked(u32 retire);

#endif
