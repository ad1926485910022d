/* SPDX-License-Identifier: MIT */
/* Reads submissions, and sets what the program must kick for. */
#ifndef O2G_CORE_PROGRESS_H
#define O2G_CORE_PROGRESS_H

#include "endpoint.h"

/* Reads submissions: their number, or -EPROTO. */
int o2g_core_read(struct o2g_core *core);
/* Call at the end of each piece of work: sets what the program must kick
 * for. */
void o2g_core_ask(struct o2g_core *core);

#endif
