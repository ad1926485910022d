/* SPDX-License-Identifier: MIT */
/*
 * How an update leaves, how the slot of a function becomes free, and what each
 * of their states waits for: drawn in docs/design/dynamos.md.
 */
#ifndef DYNAMOS_DRAIN_H
#define DYNAMOS_DRAIN_H

#include <skep/types.h>

/* How far an update in the state `leaving` is. */
enum dynamos_leave {
	DYNAMOS_STAYS,	    /* it is in no such state */
	DYNAMOS_UNPATCHING, /* together: the tasks change back first */
	DYNAMOS_SHUT,	    /* no new call takes it */
	DYNAMOS_DRAINING,   /* and each call that took it is counted */
	DYNAMOS_UNLINKED,   /* nobody is inside, it is in no chain */
	DYNAMOS_LEAVES
};

enum dynamos_leave_step {
	DYNAMOS_LEAVE_SHUT,	 /* the update ends */
	DYNAMOS_LEAVE_UNPATCH,	 /* the update ends, class together */
	DYNAMOS_LEAVE_UNPATCHED, /* livepatch has forgotten it */
	DYNAMOS_LEAVE_SETTLED,	 /* the wait of this state is over */
	DYNAMOS_LEAVE_EMPTIED,	 /* nobody is inside */
	DYNAMOS_LEAVE_STEPS
};

/* How far a slot is that no update needs. */
enum dynamos_retire {
	DYNAMOS_UNUSED,
	DYNAMOS_KEPT,	   /* an update needs it */
	DYNAMOS_UNNEEDED,  /* still hooked */
	DYNAMOS_UNHOOKING, /* ftrace takes the hook away */
	DYNAMOS_UNHOOKED,  /* no new call comes */
	DYNAMOS_EMPTYING,  /* and each call that came is counted */
	DYNAMOS_EMPTY,	   /* nobody is in the kernel's own function */
	DYNAMOS_RETIRES
};

enum dynamos_retire_step {
	DYNAMOS_RETIRE_KEEP,	/* an update takes the slot, again or anew */
	DYNAMOS_RETIRE_RELEASE, /* no update is in its chain */
	DYNAMOS_RETIRE_UNHOOK,
	DYNAMOS_RETIRE_UNHOOKED,
	DYNAMOS_RETIRE_REFUSED, /* ftrace keeps the hook */
	DYNAMOS_RETIRE_SETTLED, /* the wait of this state is over */
	DYNAMOS_RETIRE_EMPTIED, /* nobody is in the kernel's own function */
	DYNAMOS_RETIRE_STEPS
};

/* What a state waits for. One wait of a kind runs at a time, for all who needed
 * it when it began. */
enum dynamos_wait {
	DYNAMOS_NO_WAIT,
	DYNAMOS_WAIT_CALLS,   /* each call that chose is counted */
	DYNAMOS_WAIT_TEXT,    /* no task is in text that leads to a wrapper */
	DYNAMOS_WAIT_HOOKS,   /* ftrace takes hooks away */
	DYNAMOS_WAIT_PATCHES, /* livepatch begins to take patches away */
	DYNAMOS_WAITS
};

enum dynamos_pause {
	DYNAMOS_PAUSE_IDLE,
	DYNAMOS_PAUSE_RUNNING,
	DYNAMOS_PAUSE_OVER, /* and nobody has looked since */
	DYNAMOS_PAUSES
};

enum dynamos_pause_step {
	DYNAMOS_PAUSE_BEGIN,
	DYNAMOS_PAUSE_END,
	DYNAMOS_PAUSE_SEEN, /* who waited has been looked at */
	DYNAMOS_PAUSE_STEPS
};

/* How far the end of an update is, before it is leaving. */
enum dynamos_ending {
	DYNAMOS_NOT_ENDING,
	DYNAMOS_END_CLAIMED, /* somebody writes the reason */
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

/* Whether calls can still come by the slot's hook. */
int dynamos_retire_hooked(u32 retire);

#endif
