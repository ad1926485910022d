/* SPDX-License-Identifier: MIT */
/*
 * Strings and files of a call, as the function sees them: an array of char *,
 * of names or of FILE * for each such parameter.
 */
#ifndef GRID_WORKER_TEXTS_H
#define GRID_WORKER_TEXTS_H

#include "grid/core/marshal.h"

/*
 * value[].user becomes the function's array. A negative errno; then *why says
 * in words what could not be done.
 */
int texts_open(struct grid_call *c, const char **why);
/* The function returned: its strings and files become what travels. */
int texts_collect(struct grid_call *c, const char **why);
/* Closes and removes all that open made. */
void texts_close(struct grid_call *c);

#endif
