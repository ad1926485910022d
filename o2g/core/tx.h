/* SPDX-License-Identifier: MIT */
/* Writing a connection; gathering is for the engine (core.h). */
#ifndef O2G_CORE_TX_H
#define O2G_CORE_TX_H

#include "connection.h"

#define O2G_TX_AHEAD 0x40000 /* bytes planned ahead, without limits.ahead */
#define O2G_PIECE_SIZE O2G_BODY_MAX
#define O2G_BURST 16 /* messages that may pass a long body's next piece */

/* Queues the DONE of this access, or its next REPLY. */
void o2g_tx_answer(struct o2g_core *core, struct o2g_message *message);
/* So many bytes were sent: 0 or -EPROTO. */
int o2g_tx_advance(struct o2g_conn *conn, u64 length);

#endif
