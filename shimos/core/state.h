/* SPDX-License-Identifier: MIT */
/* The states of a partition and their transitions, as drawn in
 * skep/shimos.h. */
#ifndef SHIMOS_STATE_H
#define SHIMOS_STATE_H

#include <skep/types.h>

enum shimos_event {
	SHIMOS_READY,	/* lent, checked and cleared */
	SHIMOS_BOOT,	/* START */
	SHIMOS_END,	/* STOP, close, failed start */
	SHIMOS_STOPPED, /* every core answered and the memory is clear */
	SHIMOS_FREE,	/* RELEASE, or a failed CREATE */
	SHIMOS_EVENTS
};

/* The next state, 0 if the partition is gone, or a negative errno. */
int shimos_state_next(u32 state, enum shimos_event event);

#endif
