/* SPDX-License-Identifier: MIT */
/* Credit of a connection, in both directions. */
#ifndef O2G_CORE_CREDIT_H
#define O2G_CORE_CREDIT_H

#include "connection.h"

/* Whether the peer may be waiting for credit. Even with more than a message
 * needs, it may wait to send an ATOMIC. */
static inline int o2g_credit_low(const struct o2g_conn *conn)
{
	return conn->credit_in - conn->spent_in < O2G_CREDIT_LOW;
}

/* Takes the credit that a frame returns: 0 or -EPROTO. */
int o2g_credit_take(struct o2g_conn *conn, const struct o2g_frame *frame);
void o2g_credit_owe(struct o2g_conn *conn, u32 cost);
/* Returns credit early to a sender that has none left. */
void o2g_credit_write_off(struct o2g_conn *conn);
/* Returns early credit for which there was no memory before; with limits.batch
 * to one connection. */
void o2g_credit_serve(struct o2g_core *core);

/* Whether a frame is needed only to return credit: a quarter is owed, or some
 * is owed and the peer may be waiting for it. */
static inline int o2g_credit_due(const struct o2g_conn *conn)
{
	return conn->owed &&
	       (conn->owed >= conn->credit_in / 4 || o2g_credit_low(conn));
}

/* Whether there is memory now for early credit that waited. */
static inline int o2g_credit_waiting(const struct o2g_core *core)
{
	return !list_empty(&core->unserved) &&
	       core->charged < core->limits.write_off;
}

/* Whether the sender may be waiting for credit, or is in the list of those that
 * do. */
static inline int o2g_credit_short(const struct o2g_conn *conn)
{
	return o2g_credit_low(conn) || list_linked(&conn->unserved);
}

#endif
