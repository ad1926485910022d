/* SPDX-License-Identifier: MIT */
/*
 * A trace of each message, for Perfetto and chrome://tracing: with
 * SKEP_O2G_TRACE=FOLDER each endpoint writes FOLDER/PID-ID.json, ID being the
 * first 8 hexadecimal digits of its id. Without the variable `trace` of an
 * endpoint is null, and nothing else happens.
 */
#ifndef O2G_LIB_TRACE_H
#define O2G_LIB_TRACE_H

#include <skep/o2g_ring.h>

struct o2g;

/* Creates the file. 0, or -errno with o2g_error() set. */
int o2g_trace_open(struct o2g *o2g);
/* Writes the rest, and closes the file. */
void o2g_trace_close(struct o2g *o2g);
/* Writes what has been recorded so far, for a process that exits. */
void o2g_trace_flush(struct o2g *o2g);
/* In a child of fork(): the file is its parent's. */
void o2g_trace_fork(struct o2g *o2g);

/* With `submit`, before the engine can see the operation; and if it never gets
 * it. */
void o2g_trace_begin(struct o2g *o2g, const struct o2g_sqe *sqe);
void o2g_trace_undo(struct o2g *o2g, const struct o2g_sqe *sqe);
/* With `take`. */
void o2g_trace_end(struct o2g *o2g, const struct o2g_cqe *cqe);

#endif
