/* SPDX-License-Identifier: MIT */
/* Writing a connection. The engine gathers (core.h). */
#ifndef O2G_CORE_TX_H
#define O2G_CORE_TX_H

#include "connection.h"

#define O2G_TX_AHEAD 0x40000 /* bytes planned ahead if limits.ahead is 0 */
#define O2G_PIECE_SIZE O2G_BODY_MAX
/* messages that may overtake the next piece of a long body */
#define O2G_BURST 16

/* Queues the DONE of an access, or its next REPLY. */
void o2g_tx_answer(struct o2g_core *core, struct o2g_message *message);
/* Records that `length` bytes were sent: 0 or -EPROTO. */
int o2g_tx_advance(struct o2g_conn *conn, u64 length);

#endif
