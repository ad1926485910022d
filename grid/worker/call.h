/* SPDX-License-Identifier: MIT */
/* One call, or one Initialize: arguments in, the user's function, results. */
#ifndef GRID_WORKER_CALL_H
#define GRID_WORKER_CALL_H

#include <stddef.h>

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

/* Whether a module has a function of this number, which is or is not its
 * Initialize. */
int call_known(const struct grid_module *m, u32 function, int initialize);
/* Runs the user's function; returns the nanoseconds inside it. */
u64 call_function(struct grid_call *c, const struct skep_worker *w);

#define CALL_TEXT_MAX (2 * SKEP_NAME_MAX + 256)

/* Why a call is refused, as a sentence and, returned, its error code: the
 * arguments; more result than `most`; strings and files. */
u32 call_explain(const struct grid_call *c, int err, char *text, size_t size);
u32 call_explain_long(const struct grid_call *c, u64 has, u64 most, char *text,
		      size_t size);
u32 call_explain_texts(const struct grid_call *c, const char *why, int err,
		       char *text, size_t size);

#endif
