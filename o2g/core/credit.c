/* SPDX-License-Identifier: MIT */
/*
 * Credit: what a peer may still send, what this side may, and what is returned
 * early, so that two programs that have spent all of it do not wait for each
 * other.
 */
#include "credit.h"
#include "base/errno.h"

#define WRITE_OFF_MAX 64 /* messages whose credit returns early, per frame */

/* Credit that no send waits for causes no write: otherwise the kernel engine
 * would wake a worker for each message of a ping-pong. */
int o2g_credit_take(struct o2g_conn *conn, const struct o2g_frame *frame)
{
	const struct o2g_core *core = conn->core;

	if (frame->credit > conn->spent_out)
		return -LINUX_EPROTO;
	conn->spent_out -= frame->credit;
	if (frame->credit && conn->peer != O2G_NO_PEER &&
	    !list_empty(&core->peers[conn->peer].sends))
		o2g_conn_want(conn);
	return 0;
}

void o2g_credit_owe(struct o2g_conn *conn, u32 cost)
{
	conn->owed += cost;
	if (o2g_credit_due(conn) && !conn->bye_planned)
		o2g_conn_want(conn);
}

/* If a sender has spent its credit on messages that no receive matches, the
 * credit of those is returned early, while there is memory to buffer more. A
 * few messages' credit is returned at a time, and more when that is spent.
 * Without memory the connection waits in a list, because no frame may arrive
 * any more that would trigger this. */
void o2g_credit_write_off(struct o2g_conn *conn)
{
	struct o2g_core *core = conn->core;
	struct list *node;

	list_unlink(&conn->unserved);
	if (!o2g_credit_low(conn))
		return;
	if (core->charged >= core->limits.write_off) {
		if (core->limits.write_off)
			list_append(&core->unserved, &conn->unserved);
		return;
	}
	for (u32 n = 0; n < WRITE_OFF_MAX && conn->owed < conn->credit_in / 4 &&
			(node = list_first(&conn->inbox.early_credit));
	     n++) {
		struct o2g_message *message =
			list_entry(node, struct o2g_message, early_credit);

		core->scanned++;
		o2g_credit_owe(conn, message->cost);
		message->cost = 0;
		list_unlink(node);
	}
}

void o2g_credit_serve(struct o2g_core *core)
{
	u32 most = core->limits.batch ? 1 : ~0u;

	for (; most > 0 && o2g_credit_waiting(core); most--)
		o2g_credit_write_off(list_entry(list_first(&core->unserved),
						struct o2g_conn, unserved));
}
