/* SPDX-License-Identifier: MIT */
/*
 * Cleans up after connections and peers that have ended. Any number of messages
 * and operations may end with one. If submissions are read in batches, these
 * end in batches too.
 */
#include "ending.h"
#include "base/errno.h"
#include "recv.h"

#define ENDS_MAX 128 /* messages and operations ended at a time */

void o2g_ending_lose(struct o2g_core *core, struct o2g_peer *peer, int error)
{
	core->lost_peers += !peer->lost;
	peer->lost = error;
}

void o2g_ending_fail(struct o2g_core *core, u32 number)
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
		o2g_op_finish(core, list_entry(node, struct o2g_op_entry, link),
			      peer->lost);
	} else if ((node = list_first(&peer->directed))) {
		o2g_recv_fail(core, list_entry(node, struct o2g_op_entry, turn),
			      peer->lost);
	} else {
		core->failing = peer->next_failing;
		peer->failing = 0;
	}
}

static void end_one(struct o2g_core *core, struct o2g_conn *conn)
{
	struct list *node;

	if ((node = list_first(&conn->inbox.messages))) {
		o2g_message_cut(core,
				list_entry(node, struct o2g_message, here),
				conn->ending);
	} else if ((node = list_first(&conn->sending))) {
		o2g_op_finish(core, list_entry(node, struct o2g_op_entry, link),
			      conn->ending);
	} else {
		list_unlink(&conn->link);
		if (conn->peer != O2G_NO_PEER)
			o2g_ending_fail(core, conn->peer);
		core->host.free(core->host.ctx, conn, sizeof(*conn));
	}
}

int o2g_ending_remains(const struct o2g_core *core)
{
	return !list_empty(&core->endings) || core->failing != O2G_NO_PEER;
}

void o2g_ending_go_on(struct o2g_core *core)
{
	u32 most = core->limits.batch ? ENDS_MAX : ~0u;

	for (; most > 0 && o2g_ending_remains(core); most--) {
		struct list *node = list_first(&core->endings);

		if (node)
			end_one(core, list_entry(node, struct o2g_conn, link));
		else
			fail_one(core);
	}
}
