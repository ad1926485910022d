/* SPDX-License-Identifier: MIT */
/* The peers that the program named, by number. */
#ifndef O2G_CORE_PEER_H
#define O2G_CORE_PEER_H

#include "endpoint.h"

struct o2g_peer {
	struct o2g_conn *conn;
	struct list sends;    /* not yet planned, in order */
	struct list directed; /* posted receives from it */
	int named, self;
	int lost; /* 0 or -errno */
	/* operations posted before its end are being failed */
	int failing;
	u32 next_failing; /* next in that list, or O2G_NO_PEER */
};

/* 0 if the peer was never named. */
struct o2g_peer *o2g_peer_at(struct o2g_core *core, u32 peer);

#endif
