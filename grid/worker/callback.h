/* SPDX-License-Identifier: MIT */
/* Calls of the master's functions, while a call's function runs. */
#ifndef GRID_WORKER_CALLBACK_H
#define GRID_WORKER_CALLBACK_H

#include <skep/session.h>

#include "grid/core/marshal.h"

/* How callbacks reach the master. None of these returns without success: the
 * process ends. */
struct callback_way {
	/* Sends the arguments of c, which have head->length bytes, and takes
	 * what comes back into c. */
	void (*ask)(struct grid_call *c, const struct skep_callback *head);
	/* Ends the call with this code. */
	void (*refuse)(u32 code, const char *text) __attribute__((noreturn));
};

/* From now on until callback_end the function of this call may call those that
 * the master gave with it. */
void callback_begin(const struct grid_call *c, const struct callback_way *way);
void callback_end(void);

/* Exit status of a process whose function may not go on. */
#define CALLBACK_STATUS 5
void callback_leave(int status) __attribute__((noreturn));

#endif
