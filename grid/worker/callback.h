/* SPDX-License-Identifier: MIT */
/* Calls of the master's functions, while a call's function runs. */
#ifndef GRID_WORKER_CALLBACK_H
#define GRID_WORKER_CALLBACK_H

#include "grid/core/marshal.h"

/* From now on until callback_end the function of this call may call those that
 * the master gave with it. */
void callback_begin(const struct grid_call *c, u64 call);
void callback_end(void);

#endif
