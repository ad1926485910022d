/* SPDX-License-Identifier: MIT */
/* Calls that call functions of this program: docs/design/callbacks.md. */
#ifndef GRID_LIB_BACK_H
#define GRID_LIB_BACK_H

#include "client.h"

/* Called by the reader when CALLBACK was received. */
int grid_back_take(struct grid_client *c, const struct skep_frame *frame);
/* Whether the request has called the program. The caller holds client->lock. */
int grid_back_called(const struct skep_request *r);
/* Whether a function of the program runs for the request. */
int grid_back_busy(struct grid_client *c, const struct skep_request *r);
/*
 * Leaves the end of a request to its thread, which ends it when no function of
 * the program runs for it. 0: it has no thread, or this is it.
 */
int grid_back_end(struct grid_client *c, struct skep_request *r, int code,
		  const char *text);
/* Waits until the thread has ended, and frees it. */
void grid_back_free(struct skep_request *r);
/* Waits until no thread is left that ends a request. */
void grid_back_wait_all(struct grid_client *c);
/* The name of the function that runs in this thread for a call, or NULL. */
const char *grid_back_inside(void);
/* OMRPC_E_REFUSED with the error set if it runs in a callback; `what` it cannot
 * do there. */
int grid_back_refuse(const char *what);
/* The same if this thread must not wait for a call. */
int grid_back_refuse_wait(const struct skep_request *r);
/* The same of a call by its `outer`. */
int grid_back_refuse_other(u64 made_within);
/* The same if this thread runs a function for a call of the other library. */
int grid_back_refuse_foreign(void);
/* The id of the call for which this thread runs a function, or 0. */
u64 grid_back_outer(void);

#endif
