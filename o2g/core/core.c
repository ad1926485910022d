/* SPDX-License-Identifier: MIT */
/* The core itself: its making and end, and the submissions it reads. */
#include "internal.h"

#define MESSAGES_MAX 0x1000000u
#define HELD_MANY 4096
#define SCAN_MAX 4096 /* messages looked at for one batch */

int o2g_core_tired(const struct o2g_core *core)
{
	return core->limits.batch && (core->scanned - core->rested > SCAN_MAX ||
				      core->taken >= core->limits.batch);
}

int o2g_core_make(struct o2g_core **out, const struct o2g_host *host,
		  const struct o2g_limits *limits, struct o2g_area *area)
{
	struct o2g_core *core = host->alloc(host->ctx, sizeof(*core));
	int rc;

	if (!core)
		return -O2G_ENOMEM;
	core->host = *host;
	core->limits = *limits;
	list_init(&core->backlog);
	list_init(&core->conns);
	list_init(&core->endings);
	list_init(&core->starving);
	core->failing = O2G_NO_PEER;
	list_init(&core->odd);
	list_init(&core->arrival);
	list_init(&core->regions);
	o2g_pool_make(&core->ops, &core->host, sizeof(struct o2g_op_entry),
		      limits->postings);
	o2g_pool_make(&core->messages, &core->host, sizeof(struct o2g_message),
		      MESSAGES_MAX);
	rc = o2g_ring_open(&core->ring, area);
	if (!rc && (!limits->postings || limits->postings > MESSAGES_MAX ||
		    limits->peers >= O2G_NO_PEER))
		rc = -O2G_EINVAL;
	if (!rc)
		rc = o2g_table_make(&core->table, &core->host,
				    limits->hash_key);
	/* A receive of what is held gives memory back: it must find some. */
	if (!rc)
		rc = o2g_pool_warm(&core->ops);
	if (!rc && limits->slab_message)
		rc = o2g_slab_make(&core->slab, &core->host, core->ring.slab,
				   core->ring.slab_size);
	*out = rc ? 0 : core;
	if (rc)
		o2g_core_free(core);
	return rc;
}

static void free_messages(struct o2g_core *core)
{
	for (u32 i = 0; i < core->messages.made; i++) {
		struct o2g_message *message = o2g_pool_at(&core->messages, i);

		if (message && message->hold.place == O2G_PLACE_CORE)
			o2g_message_unhold(core, message);
	}
}

static void free_conns(struct o2g_core *core, struct list *conns)
{
	const struct o2g_host *host = &core->host;
	struct list *node, *after;

	list_each(node, after, conns)
		host->free(host->ctx, list_entry(node, struct o2g_conn, link),
			   sizeof(struct o2g_conn));
}

void o2g_core_free(struct o2g_core *core)
{
	const struct o2g_host host = core->host;

	free_conns(core, &core->conns);
	free_conns(core, &core->endings);
	free_messages(core);
	o2g_region_free_all(core);
	if (core->peers)
		host.free(host.ctx, core->peers,
			  (u64)core->peers_made * sizeof(*core->peers));
	o2g_slab_free(&core->slab);
	if (core->table.host)
		o2g_table_free(&core->table);
	o2g_pool_free(&core->ops);
	o2g_pool_free(&core->messages);
	host.free(host.ctx, core, sizeof(*core));
}

static int release_slab(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	int rc = o2g_slab_release(&core->slab, sqe->data);

	return rc ? o2g_result_refuse(core, sqe, rc) : 0;
}

/* 0, or -EAGAIN: it can't even be refused before there is room. */
static int run_submission(struct o2g_core *core, const struct o2g_sqe *sqe)
{
	switch (sqe->op) {
	case O2G_OP_RECV:
		return o2g_recv_submit(core, sqe);
	case O2G_OP_SEND:
	case O2G_OP_WRITE:
	case O2G_OP_READ:
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
	return o2g_result_refuse(core, sqe, -O2G_EINVAL);
}

/* Reads as many submissions as there are now. Not more: a program that writes
 * on while we read must not keep the engine here. */
static int read_most(struct o2g_core *core, int most)
{
	struct o2g_sqe sqe;
	int waiting, n;

	core->more = core->broken; /* to be told by o2g_core_consume() */
	if (core->broken)
		return -O2G_EPROTO;
	core->more = o2g_result_flush(core);
	if (core->more)
		return 0;
	/* A receive must not get what is about to vanish. */
	if (!list_empty(&core->endings))
		return 0;
	core->rested = core->scanned;
	core->taken = 0;
	o2g_recv_go_on(core); /* tired unless that is done */
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

/* On behalf of what arrives. Where many messages are unmatched, a receive may
 * have to be compared with all of them: not here. It finds its message in
 * either order. */
int o2g_core_read(struct o2g_core *core)
{
	if (core->limits.batch && core->counts.held > HELD_MANY) {
		core->more |= o2g_ring_waiting(&core->ring) != 0;
		return 0;
	}
	return read_most(core, batch_size(core));
}

static u32 kick_needs(const struct o2g_core *core)
{
	const int room = core->stalled || !list_empty(&core->backlog);
	const int kick =
		room || core->counts.held || core->blocked || core->lost_peers;

	return (kick ? O2G_NEED_KICK : 0) | (room ? O2G_NEED_ROOM : 0) |
	       (core->blocked ? O2G_NEED_BODIES : 0);
}

/* Did the program submit something, or make room that somebody waits for? */
static int went_on(struct o2g_core *core)
{
	return o2g_ring_waiting(&core->ring) ||
	       (!list_empty(&core->backlog) && o2g_ring_room(&core->ring));
}

/* Flags that were set stay set while this runs, so it ends. In batches, what
 * came in before the flag was seen is left lying. */
void o2g_core_ask(struct o2g_core *core)
{
	u32 flags;

	o2g_rx_forgive(core);
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

	o2g_conn_go_on(core);
	n = read_most(core, batch_size(core));
	core->counts.kicks++;
	o2g_core_ask(core);
	return core->broken ? -O2G_EPROTO : n;
}

u64 o2g_core_borrow(struct o2g_core *core, u64 least, u64 *length)
{
	return o2g_slab_borrow(&core->slab, least, length);
}

void o2g_core_return(struct o2g_core *core, u64 offset)
{
	o2g_slab_give(&core->slab, offset);
	core->changes++;
}

u64 o2g_core_changes(const struct o2g_core *core)
{
	return core->changes;
}

int o2g_core_more(const struct o2g_core *core)
{
	return core->more || core->searching || o2g_conn_remains(core) ||
	       o2g_rx_starves(core);
}

void o2g_core_patience(struct o2g_core *core, int patient)
{
	core->patient = patient;
}

int o2g_core_wakes(struct o2g_core *core)
{
	if (!core->completed)
		return 0;
	core->completed = 0;
	return o2g_ring_wakes(&core->ring);
}

void o2g_core_counts(const struct o2g_core *core, struct o2g_counts *counts)
{
	*counts = core->counts;
}
