/* SPDX-License-Identifier: MIT */
/* Credit of a connection, both ways. */
#ifndef O2G_CORE_CREDIT_H
#define O2G_CORE_CREDIT_H

#include "connection.h"

/* May the other side wait for more? An ATOMIC may, with more than a message
 * needs. */
static inline int o2g_credit_low(const struct o2g_conn *conn)
{
	return conn->credit_in - conn->spent_in < O2G_CREDIT_LOW;
}

/* The credit that a frame returns: 0 or -EPROTO. */
int o2g_credit_take(struct o2g_conn *conn, const struct o2g_frame *frame);
void o2g_credit_owe(struct o2g_conn *conn, u32 cost);
/* Returns credit to a sender that has none left, for unexpected messages. */
void o2g_credit_write_off(struct o2g_conn *conn);
/* Returns early credit that could not be returned before; with limits.batch to
 * one connection. */
void o2g_credit_serve(struct o2g_core *core);

/* Is a frame needed that only returns credit? A quarter is owed, or the other
 * side may wait for the little that is. */
static inline int o2g_credit_due(const struct o2g_conn *conn)
{
	return conn->owed &&
	       (conn->owed >= conn->credit_in / 4 || o2g_credit_low(conn));
}

/* Can early credit be returned now that could not before? */
static inline int o2g_credit_waiting(const struct o2g_core *core)
{
	return !list_empty(&core->unserved) &&
	       core->charged < core->limits.write_off;
}

/* Has the sender too little credit, or does it wait for more? */
static inline int o2g_credit_short(const struct o2g_conn *conn)
{
	return o2g_credit_low(conn) || list_linked(&conn->unserved);
}

#endif
