/* SPDX-License-Identifier: MIT */
/* One call, or one Initialize: arguments in, the user's function, results. */
#ifndef GRID_WORKER_CALL_H
#define GRID_WORKER_CALL_H

#include <skep/session.h>
#include "grid/include/skep/worker.h"

#include "grid/core/marshal.h"

/* 0, or what stream.h says: the session is over then. */
int call_run(const struct grid_module *m, const struct skep_worker *w,
	     const struct skep_frame *f);
int call_initialize(const struct grid_module *m, const struct skep_worker *w,
		    const struct skep_frame *f);
/* READY, for the start. */
int call_ready(const struct grid_module *m);

#endif
