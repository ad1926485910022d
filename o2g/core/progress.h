/* SPDX-License-Identifier: MIT */
/* Reading submissions, and what the program has to kick for. */
#ifndef O2G_CORE_PROGRESS_H
#define O2G_CORE_PROGRESS_H

#include "endpoint.h"

/* Reads submissions now; their number, or -EPROTO. */
int o2g_core_read(struct o2g_core *core);
/* Call at the end of each piece of work: sets what the program has to kick
 * for. */
void o2g_core_ask(struct o2g_core *core);

#endif
