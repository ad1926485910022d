/* SPDX-License-Identifier: MIT */
/* What connections and peers that are gone leave behind. */
#ifndef O2G_CORE_ENDING_H
#define O2G_CORE_ENDING_H

#include "connection.h"

/* Sends to this peer, and receives directed at it, fail from now on. */
void o2g_ending_lose(struct o2g_core *core, struct o2g_peer *peer, int error);
/* And those that are there, by o2g_ending_go_on(). */
void o2g_ending_fail(struct o2g_core *core, u32 peer);
void o2g_ending_go_on(struct o2g_core *core);
/* Is something left? */
int o2g_ending_remains(const struct o2g_core *core);

#endif
