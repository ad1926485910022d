/* SPDX-License-Identifier: MIT */
/* The peers that the program named, in an array that grows. */
#include "peer.h"
#include "base/errno.h"

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
		return -LINUX_ENOMEM;
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
		return -LINUX_ENOSPC;
	if (peer >= core->peers_made)
		rc = grow_peers(core, peer);
	if (rc)
		return rc;
	if (core->peers[peer].named)
		return -LINUX_EEXIST;
	core->peers[peer].named = 1;
	core->peers[peer].self = self;
	return 0;
}
