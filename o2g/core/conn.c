/* SPDX-License-Identifier: MIT */
/*
 * Peers and connections: naming, attaching and ending. When a connection ends,
 * any number of messages and operations may end with it. If submissions are
 * read in batches, these end in batches too.
 */
#include "ending.h"
#include "base/errno.h"
#include "progress.h"
#include "recv.h"
#include "tx.h"

void o2g_core_lost(struct o2g_core *core, u32 number, int error)
{
	struct o2g_peer *peer = o2g_peer_at(core, number);

	if (!peer || peer->conn || peer->self || error >= 0)
		return;
	o2g_core_read(core);
	o2g_ending_lose(core, peer, error);
	o2g_ending_fail(core, number);
	o2g_ending_go_on(core);
	o2g_core_ask(core);
}

/* ---- connections ---- */

static int may_join(struct o2g_core *core, u32 number)
{
	const struct o2g_peer *peer = o2g_peer_at(core, number);

	if (!peer)
		return -LINUX_EHOSTUNREACH;
	if (peer->lost)
		return peer->lost;
	return peer->conn || peer->self ? -LINUX_EEXIST : 0;
}

static int credit_fits(u32 credit)
{
	return credit >= O2G_CREDIT_MIN && credit <= O2G_CREDIT_MAX;
}

int o2g_conn_attach(struct o2g_core *core, u32 peer, u32 credit_out,
		    u32 credit_in, void *host, struct o2g_conn **out)
{
	struct o2g_conn *conn;
	int rc = peer == O2G_NO_PEER ? 0 : may_join(core, peer);

	if (!credit_fits(credit_out) || !credit_fits(credit_in))
		rc = -LINUX_EINVAL;
	if (rc)
		return rc;
	conn = core->host.alloc(core->host.ctx, sizeof(*conn));
	if (!conn)
		return -LINUX_ENOMEM;
	conn->core = core;
	conn->host = host;
	conn->serial = core->serial++;
	conn->peer = peer;
	conn->credit_in = credit_in;
	conn->credit_out = credit_out;
	list_init(&conn->inbox.messages);
	list_init(&conn->inbox.early_credit);
	list_init(&conn->sending);
	list_init(&conn->bodies);
	list_init(&conn->grants);
	list_init(&conn->replies);
	list_append(&core->conns, &conn->link);
	*out = conn;
	if (peer == O2G_NO_PEER)
		return 0;
	core->peers[peer].conn = conn;
	if (!list_empty(&core->peers[peer].sends))
		o2g_conn_want(conn);
	return 0;
}

/* Receives from this peer may have been posted while the messages of the
 * connection were unmatched. */
int o2g_conn_name(struct o2g_conn *conn, u32 peer)
{
	struct o2g_core *core = conn->core;
	struct list *node, *after;
	int rc = conn->peer == O2G_NO_PEER ? may_join(core, peer)
					   : -LINUX_EEXIST;

	if (rc)
		return rc;
	o2g_core_read(core);
	core->changes++;
	conn->peer = peer;
	core->peers[peer].conn = conn;
	list_each(node, after, &conn->inbox.messages)
	{
		struct o2g_message *message =
			list_entry(node, struct o2g_message, here);

		o2g_message_name(core, message, peer);
	}
	o2g_conn_want(conn);
	o2g_core_ask(core);
	return 0;
}

void *o2g_conn_host(const struct o2g_conn *conn)
{
	return conn->host;
}

void o2g_conn_bye(struct o2g_conn *conn)
{
	o2g_core_read(conn->core);
	conn->bye_wanted = 1;
	o2g_conn_want(conn);
	o2g_core_ask(conn->core);
}

int o2g_conn_bye_sent(const struct o2g_conn *conn)
{
	return conn->bye_sent;
}

int o2g_conn_bye_received(const struct o2g_conn *conn)
{
	return conn->bye_in;
}

void o2g_conn_end(struct o2g_conn *conn, int error)
{
	struct o2g_core *core = conn->core;
	const int clean = !error && conn->bye_in && conn->rx_have == 0 &&
			  conn->rx == O2G_RX_HEADER && !conn->inbox.incomplete;

	conn->ending = clean ? -LINUX_ESHUTDOWN : -LINUX_ECONNRESET;
	o2g_core_read(core);
	core->blocked -= conn->blocked;
	if (conn->peer != O2G_NO_PEER) {
		core->peers[conn->peer].conn = 0;
		o2g_ending_lose(core, &core->peers[conn->peer], conn->ending);
	}
	list_unlink(&conn->unserved);
	list_unlink(&conn->link);
	list_append(&core->endings, &conn->link);
	o2g_ending_go_on(core);
	o2g_core_ask(core);
}

int o2g_tx_done(struct o2g_conn *conn, u64 length)
{
	const int rc = o2g_tx_advance(conn, length);

	if (!rc)
		o2g_core_ask(conn->core);
	return rc;
}
