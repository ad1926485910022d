// SPDX-License-Identifier: MIT
#include <skep/shimos.h>

#include "base/errno.h"
#include "state.h"

#define NEVER (-LINUX_EINVAL)
#define BUSY (-LINUX_EBUSY)

static const int next[][SHIMOS_EVENTS] = {
	/*                  READY        BOOT            END STOPPED FREE */
	[SHIMOS_LENT] = {SHIMOS_IDLE, BUSY, NEVER, NEVER, 0},
	[SHIMOS_IDLE] = {NEVER, SHIMOS_RUNNING, NEVER, NEVER, 0},
	[SHIMOS_RUNNING] = {NEVER, BUSY, SHIMOS_STOPPING, NEVER, BUSY},
	[SHIMOS_STOPPING] = {NEVER, BUSY, NEVER, SHIMOS_IDLE, BUSY},
};

int shimos_state_next(u32 state, enum shimos_event event)
{
	if (state < SHIMOS_LENT || state > SHIMOS_STOPPING ||
	    (u32)event >= SHIMOS_EVENTS)
		return NEVER;
	return next[state][event];
}
