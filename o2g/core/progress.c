/* SPDX-License-Identifier: MIT */
/* Reads submissions, and sets what the program must kick for. */
#include "progress.h"
#include "credit.h"
#include "ending.h"
#include "base/errno.h"
#include "message.h"
#include "recv.h"
#include "send.h"

#define UNEXPECTED_MANY 4096

static int release_slab(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	int rc = o2g_slab_release(&core->slab, sqe->data);

	return rc ? o2g_result_refuse(core, sqe, rc) : 0;
}

/* 0, or -EAGAIN: there is no space for the completion that refuses it. */
static int run_submission(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	switch (sqe->op) {
	case O2G_OP_RECV:
		return o2g_recv_submit(core, sqe);
	case O2G_OP_SEND:
	case O2G_OP_WRITE:
	case O2G_OP_READ:
	case O2G_OP_ATOMIC:
		return o2g_send_submit(core, sqe);
	case O2G_OP_CANCEL:
		return o2g_recv_cancel(core, sqe);
	case O2G_OP_PEEK:
		return o2g_recv_peek(core, sqe);
	case O2G_OP_DISCARD:
		return o2g_recv_discard(core, sqe);
	case O2G_OP_RELEASE:
		return release_slab(core, sqe);
	}
	return o2g_result_refuse(core, sqe, -LINUX_EINVAL);
}

/* Reads only the submissions that are in the ring at the start, so that a
 * program that keeps writing cannot keep the engine here. */
static int read_batch(struct o2g_core *core, int most)
{
	struct o2g_sqe sqe;
	int waiting, n;

	core->more = core->broken; /* o2g_core_consume() returns it */
	if (core->broken)
		return -LINUX_EPROTO;
	core->more = o2g_result_flush(core);
	if (core->more)
		return 0;
	/* A receive must not match a message that is about to be dropped. */
	if (!list_empty(&core->endings))
		return 0;
	core->rested = core->scanned;
	core->taken = 0;
	o2g_recv_go_on(core); /* uses up the budget unless it is done */
	waiting = o2g_ring_waiting(&core->ring);
	if (waiting < 0) {
		core->broken = 1;
		core->more = 1;
		return waiting;
	}
	core->stalled = 0;
	for (n = 0; n < waiting && n < most && !o2g_core_tired(core); n++) {
		o2g_ring_look(&core->ring, &sqe);
		if (run_submission(core, &sqe)) {
			core->stalled = 1;
			return n;
		}
		o2g_ring_next(&core->ring);
		core->changes++;
	}
	core->more = n < waiting;
	return n;
}

static int batch_size(const struct o2g_core *core)
{
	return core->limits.batch ? (int)core->limits.batch : O2G_RING_MAX;
}

/* Called for an arriving message. If many messages are unmatched, submissions
 * stay unread: each receive may have to be compared with all of them, which
 * takes too long here. The receive finds its message in either order. */
int o2g_core_read(struct o2g_core *core)
{
	if (core->limits.batch && core->counts.unmatched > UNEXPECTED_MANY) {
		core->more |= o2g_ring_waiting(&core->ring) != 0;
		return 0;
	}
	return read_batch(core, batch_size(core));
}

static u32 kick_needs(const struct o2g_core *core)
{
	const int room = core->stalled || !list_empty(&core->backlog);
	const int kick = room || core->counts.unmatched || core->blocked ||
			 core->lost_peers;

	return (kick ? O2G_NEED_KICK : 0) | (room ? O2G_NEED_ROOM : 0) |
	       (core->blocked ? O2G_NEED_BODIES : 0);
}

/* Whether the program has submitted something, or freed space for waiting
 * completions. */
static int went_on(struct o2g_core *core)
{
	return o2g_ring_waiting(&core->ring) ||
	       (!list_empty(&core->backlog) && o2g_ring_room(&core->ring));
}

/* Flags are only added in the loop, so it ends. With batches, submissions from
 * before a flag was set are left unread. */
void o2g_core_ask(struct o2g_core *core)
{
	u32 flags;

	if (o2g_credit_waiting(core))
		o2g_credit_serve(core);
	if (o2g_message_inviting(core))
		o2g_message_invite(core);
	flags = kick_needs(core);
	while (o2g_ring_ask(&core->ring, flags)) {
		if (core->limits.batch)
			core->more |= went_on(core);
		if (core->limits.batch || o2g_core_read(core) < 0)
			return;
		flags |= kick_needs(core);
	}
}

int o2g_core_consume(struct o2g_core *core)
{
	int n;

	o2g_ending_go_on(core);
	n = read_batch(core, batch_size(core));
	core->counts.kicks++;
	o2g_core_ask(core);
	return core->broken ? -LINUX_EPROTO : n;
}
