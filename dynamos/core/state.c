// SPDX-License-Identifier: MIT
#include <skep/dynamos.h>

#include "state.h"

#define NEVER (-LINUX_EINVAL)
#define BUSY (-LINUX_EBUSY)
#define DONE (-LINUX_EALREADY)

static const int next[][DYNAMOS_STEPS] = {
	[DYNAMOS_LOADED] =
		{
			[DYNAMOS_BEGIN] = DYNAMOS_TRIAL,
			[DYNAMOS_ENTER] = DYNAMOS_ENTERING,
			[DYNAMOS_ENTERED] = NEVER,
			[DYNAMOS_CONFIRM] = NEVER,
			[DYNAMOS_END] = DONE,
			[DYNAMOS_DRAINED] = NEVER,
			[DYNAMOS_REMOVE] = 0,
		},
	[DYNAMOS_ENTERING] =
		{
			[DYNAMOS_BEGIN] = DONE,
			[DYNAMOS_ENTER] = DONE,
			[DYNAMOS_ENTERED] = DYNAMOS_TRIAL,
			[DYNAMOS_CONFIRM] = BUSY,
			[DYNAMOS_END] = DYNAMOS_LEAVING,
			[DYNAMOS_DRAINED] = NEVER,
			[DYNAMOS_REMOVE] = BUSY,
		},
	[DYNAMOS_TRIAL] =
		{
			[DYNAMOS_BEGIN] = DONE,
			[DYNAMOS_ENTER] = DONE,
			[DYNAMOS_ENTERED] = NEVER,
			[DYNAMOS_CONFIRM] = DYNAMOS_COMMITTED,
			[DYNAMOS_END] = DYNAMOS_LEAVING,
			[DYNAMOS_DRAINED] = NEVER,
			[DYNAMOS_REMOVE] = BUSY,
		},
	[DYNAMOS_COMMITTED] =
		{
			[DYNAMOS_BEGIN] = DONE,
			[DYNAMOS_ENTER] = DONE,
			[DYNAMOS_ENTERED] = NEVER,
			[DYNAMOS_CONFIRM] = DONE,
			[DYNAMOS_END] = DYNAMOS_LEAVING,
			[DYNAMOS_DRAINED] = NEVER,
			[DYNAMOS_REMOVE] = BUSY,
		},
	[DYNAMOS_LEAVING] =
		{
			[DYNAMOS_BEGIN] = BUSY,
			[DYNAMOS_ENTER] = BUSY,
			[DYNAMOS_ENTERED] = NEVER,
			[DYNAMOS_CONFIRM] = NEVER,
			[DYNAMOS_END] = DONE,
			[DYNAMOS_DRAINED] = DYNAMOS_LOADED,
			[DYNAMOS_REMOVE] = BUSY,
		},
};

int dynamos_state_next(u32 state, enum dynamos_step step)
{
	if (state < DYNAMOS_LOADED || state > DYNAMOS_LEAVING ||
	    (u32)step >= DYNAMOS_STEPS)
		return NEVER;
	return next[state][step];
}

const char *dynamos_state_name(u32 state)
{
	static const char *const names[] = {
		[DYNAMOS_LOADED] = "loaded",
		[DYNAMOS_ENTERING] = "entering",
		[DYNAMOS_TRIAL] = "on trial",
		[DYNAMOS_COMMITTED] = "committed",
		[DYNAMOS_LEAVING] = "leaving",
	};

	if (state < DYNAMOS_LOADED || state > DYNAMOS_LEAVING)
		return "unknown";
	return names[state];
}
