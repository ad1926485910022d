/* SPDX-License-Identifier: MIT */
/*
 * Peers and connections: naming, attaching, and the ways they end. As many
 * messages and operations may end with one as the program and its peer wanted;
 * where submissions are read in batches, they end in batches too.
 */
#include "internal.h"

#define ENDS_MAX 128 /* messages and operations ended at a time */

struct o2g_peer *o2g_peer_at(struct o2g_core *core, u32 peer)
{
	if (peer >= core->peers_made || !core->peers[peer].named)
		return 0;
	return &core->peers[peer];
}

static void list_move_head(struct list *to, struct list *from)
{
	list_init(to);
	if (list_empty(from))
		return;
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
}

static int grow_peers(struct o2g_core *core, u32 peer)
{
	const struct o2g_host *host = &core->host;
	u64 made = core->peers_made ? core->peers_made : 16;
	struct o2g_peer *peers;

	while (made <= peer)
		made *= 2;
	if (made > core->limits.peers)
		made = core->limits.peers;
	peers = host->alloc(host->ctx, made * sizeof(*peers));
	if (!peers)
		return -O2G_ENOMEM;
	for (u32 i = 0; i < core->peers_made; i++) {
		peers[i] = core->peers[i];
		list_move_head(&peers[i].sends, &core->peers[i].sends);
		list_move_head(&peers[i].directed, &core->peers[i].directed);
	}
	for (u32 i = core->peers_made; i < made; i++) {
		list_init(&peers[i].sends);
		list_init(&peers[i].directed);
	}
	if (core->peers)
		host->free(host->ctx, core->peers,
			   (u64)core->peers_made * sizeof(*peers));
	core->peers = peers;
	core->peers_made = (u32)made;
	return 0;
}

int o2g_core_peer(struct o2g_core *core, u32 peer, int self)
{
	int rc = 0;

	if (peer >= core->limits.peers)
		return -O2G_ENOSPC;
	if (peer >= core->peers_made)
		rc = grow_peers(core, peer);
	if (rc)
		return rc;
	if (core->peers[peer].named)
		return -O2G_EEXIST;
	core->peers[peer].named = 1;
	core->peers[peer].self = self;
	return 0;
}

/* ---- what fails with a peer ---- */

static void mark_peer_lost(struct o2g_core *core, struct o2g_peer *peer,
			   int error)
{
	core->lost_peers += !peer->lost;
	peer->lost = error;
}

static void fail_later(struct o2g_core *core, u32 number)
{
	struct o2g_peer *peer = &core->peers[number];

	if (peer->failing)
		return;
	peer->failing = 1;
	peer->next_failing = core->failing;
	core->failing = number;
}

static void fail_one(struct o2g_core *core)
{
	struct o2g_peer *peer = &core->peers[core->failing];
	struct list *node;

	if ((node = list_first(&peer->sends))) {
		o2g_send_done(core, list_entry(node, struct o2g_op_entry, link),
			      peer->lost);
	} else if ((node = list_first(&peer->directed))) {
		o2g_recv_fail(core, list_entry(node, struct o2g_op_entry, turn),
			      peer->lost);
	} else {
		core->failing = peer->next_failing;
		peer->failing = 0;
	}
}

void o2g_core_lost(struct o2g_core *core, u32 number, int error)
{
	struct o2g_peer *peer = o2g_peer_at(core, number);

	if (!peer || peer->conn || peer->self || error >= 0)
		return;
	o2g_core_read(core);
	mark_peer_lost(core, peer, error);
	fail_later(core, number);
	o2g_conn_go_on(core);
	o2g_core_ask(core);
}

/* ---- connections ---- */

static int may_join(struct o2g_core *core, u32 number)
{
	const struct o2g_peer *peer = o2g_peer_at(core, number);

	if (!peer)
		return -O2G_EHOSTUNREACH;
	if (peer->lost)
		return peer->lost;
	return peer->conn || peer->self ? -O2G_EEXIST : 0;
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
		rc = -O2G_EINVAL;
	if (rc)
		return rc;
	conn = core->host.alloc(core->host.ctx, sizeof(*conn));
	if (!conn)
		return -O2G_ENOMEM;
	conn->core = core;
	conn->host = host;
	conn->serial = core->serial++;
	conn->peer = peer;
	conn->credit_in = credit_in;
	conn->credit_out = credit_out;
	list_init(&conn->messages);
	list_init(&conn->unpaid);
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
		o2g_tx_want(conn);
	return 0;
}

/* Receives that were directed at it may wait beside its messages. */
int o2g_conn_name(struct o2g_conn *conn, u32 peer)
{
	struct o2g_core *core = conn->core;
	struct list *node, *after;
	int rc = conn->peer == O2G_NO_PEER ? may_join(core, peer) : -O2G_EEXIST;

	if (rc)
		return rc;
	o2g_core_read(core);
	core->changes++;
	conn->peer = peer;
	core->peers[peer].conn = conn;
	list_each(node, after, &conn->messages)
	{
		struct o2g_message *message =
			list_entry(node, struct o2g_message, here);
		struct o2g_op_entry *op;

		message->source = peer;
		if (!(message->why & O2G_MSG_HELD))
			continue;
		o2g_match_name(core, message);
		op = o2g_match_receive(core, message, 0);
		if (op)
			o2g_message_take(core, message, op);
	}
	o2g_tx_want(conn);
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
	o2g_tx_want(conn);
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

/* ---- their end ---- */

static void end_one(struct o2g_core *core, struct o2g_conn *conn)
{
	struct list *node;

	if ((node = list_first(&conn->messages))) {
		o2g_message_cut(core,
				list_entry(node, struct o2g_message, here),
				conn->ending);
	} else if ((node = list_first(&conn->sending))) {
		o2g_send_done(core, list_entry(node, struct o2g_op_entry, link),
			      conn->ending);
	} else {
		list_unlink(&conn->link);
		if (conn->peer != O2G_NO_PEER)
			fail_later(core, conn->peer);
		core->host.free(core->host.ctx, conn, sizeof(*conn));
	}
}

int o2g_conn_remains(const struct o2g_core *core)
{
	return !list_empty(&core->endings) || core->failing != O2G_NO_PEER;
}

void o2g_conn_go_on(struct o2g_core *core)
{
	u32 most = core->limits.batch ? ENDS_MAX : ~0u;

	for (; most > 0 && o2g_conn_remains(core); most--) {
		struct list *node = list_first(&core->endings);

		if (node)
			end_one(core, list_entry(node, struct o2g_conn, link));
		else
			fail_one(core);
	}
}

void o2g_conn_end(struct o2g_conn *conn, int error)
{
	struct o2g_core *core = conn->core;
	const int clean = !error && conn->bye_in && conn->rx_have == 0 &&
			  conn->rx == O2G_RX_HEADER && !conn->incomplete;

	conn->ending = clean ? -O2G_ESHUTDOWN : -O2G_ECONNRESET;
	o2g_core_read(core);
	core->blocked -= conn->blocked;
	if (conn->peer != O2G_NO_PEER) {
		core->peers[conn->peer].conn = 0;
		mark_peer_lost(core, &core->peers[conn->peer], conn->ending);
	}
	list_unlink(&conn->starving);
	list_unlink(&conn->link);
	list_append(&core->endings, &conn->link);
	o2g_conn_go_on(core);
	o2g_core_ask(core);
}
