/* SPDX-License-Identifier: MIT */
/* Cleans up after connections and peers that have ended. */
#ifndef O2G_CORE_ENDING_H
#define O2G_CORE_ENDING_H

#include "connection.h"

/* Sends to this peer, and receives directed at it, fail from now on. */
void o2g_ending_lose(struct o2g_core *core, struct o2g_peer *peer, int error);
/* Lists the peer, so that o2g_ending_go_on() fails those posted before. */
void o2g_ending_fail(struct o2g_core *core, u32 peer);
void o2g_ending_go_on(struct o2g_core *core);
/* Whether there is something left to clean up. */
int o2g_ending_remains(const struct o2g_core *core);

#endif
