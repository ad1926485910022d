/* SPDX-License-Identifier: MIT */
/* Callbacks over the session with the agent. */
#ifndef GRID_WORKER_ASK_H
#define GRID_WORKER_ASK_H

#include "callback.h"

/* The way of a worker's own function, for this call. */
const struct callback_way *ask_over_session(u64 call);

/*
 * Reads the head of a RETURN, which must be that of this callback. 0:
 * stream_left() bytes of arguments follow. Otherwise the session is over, as
 * stream.h says.
 */
int ask_return(u64 call, const struct skep_callback *asked,
	       const struct skep_frame *f);

#endif
