/* SPDX-License-Identifier: MIT */
/* The states of an update and the steps between them, as drawn in
 * skep/dynamos.h. */
#ifndef DYNAMOS_STATE_H
#define DYNAMOS_STATE_H

#include "base/errno.h"
#include <skep/types.h>

enum dynamos_step {
	DYNAMOS_BEGIN,	 /* APPLY of class any, task, object */
	DYNAMOS_ENTER,	 /* APPLY of class together */
	DYNAMOS_ENTERED, /* the last task switched */
	DYNAMOS_CONFIRM, /* COMMIT */
	DYNAMOS_END,	 /* REVERT, health, no COMMIT in time, superseded */
	DYNAMOS_DRAINED, /* no call is inside any more */
	DYNAMOS_REMOVE,	 /* the module's exit */
	DYNAMOS_STEPS
};

/* The next state, 0 if the update has no further one, or a negative errno:
 * -EBUSY if the step is allowed later, -EALREADY if it was taken before. */
int dynamos_state_next(u32 state, enum dynamos_step step);

/* "loaded", "entering" and so on, for messages. */
const char *dynamos_state_name(u32 state);

#endif
