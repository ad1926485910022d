/* SPDX-License-Identifier: MIT */
/* Sends and accesses: submissions. */
#ifndef O2G_CORE_SEND_H
#define O2G_CORE_SEND_H

#include "connection.h"

int o2g_send_submit(struct o2g_core *core, const struct o2g_sqe *sqe);
int o2g_send_granted(struct o2g_conn *conn, u32 id, u64 length);

#endif
