/* SPDX-License-Identifier: MIT */
/* Creates and destroys a core, and sets its upcalls. */
#include "credit.h"
#include "ending.h"
#include "base/errno.h"
#include "message.h"
#include "progress.h"
#include "recv.h"
#include "rma.h"
#include "send.h"
#include "tx.h"

#define MESSAGES_MAX 0x1000000u

/* Implementations of the upcalls. */
static void credit_owed(struct o2g_inbox *inbox, u32 cost)
{
	o2g_credit_owe(list_entry(inbox, struct o2g_conn, inbox), cost);
}

static void grant_due(struct o2g_message *message)
{
	struct o2g_conn *conn = o2g_message_conn(message);

	list_append(&conn->grants, &message->grant);
	o2g_conn_want(conn);
}

static const struct o2g_upcalls upcalls = {
	.result_written = o2g_message_written,
	.credit_owed = credit_owed,
	.grant_due = grant_due,
	.access_complete = o2g_rma_complete,
	.access_answered = o2g_rma_answered,
	.access_perform = o2g_rma_perform,
};

int o2g_core_make(struct o2g_core **out, const struct o2g_host *host,
		  const struct o2g_limits *limits, struct o2g_area *area)
{
	struct o2g_core *core = host->alloc(host->ctx, sizeof(*core));
	int rc;

	if (!core)
		return -LINUX_ENOMEM;
	core->host = *host;
	core->up = &upcalls;
	core->limits = *limits;
	list_init(&core->backlog);
	list_init(&core->conns);
	list_init(&core->endings);
	list_init(&core->unserved);
	core->failing = O2G_NO_PEER;
	list_init(&core->odd);
	list_init(&core->arrival);
	list_init(&core->regions);
	list_init(&core->atomics);
	list_init(&core->uninvited);
	o2g_pool_make(&core->ops, &core->host, sizeof(struct o2g_op_entry),
		      limits->postings);
	o2g_pool_make(&core->messages, &core->host, sizeof(struct o2g_message),
		      MESSAGES_MAX);
	rc = o2g_ring_open(&core->ring, area);
	if (!rc && (!limits->postings || limits->postings > MESSAGES_MAX ||
		    limits->peers >= O2G_NO_PEER))
		rc = -LINUX_EINVAL;
	if (!rc)
		rc = o2g_table_make(&core->table, &core->host,
				    limits->hash_key);
	core->table.is_light = !!limits->light_hash;
	core->cookies = !!limits->batch;
	/* The receive of an unexpected message frees memory, so it must not
	 * fail for lack of memory. */
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

		if (message && message->buffer.place == O2G_PLACE_CORE)
			o2g_message_unbuffer(core, message);
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
	return core->more || core->searching || o2g_ending_remains(core) ||
	       o2g_credit_waiting(core);
}

void o2g_core_wait_memory(struct o2g_core *core, int wait_memory)
{
	core->wait_memory = wait_memory;
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

void o2g_copy_done(struct o2g_core *core, struct o2g_copy *job, int status)
{
	const int atomic = !!job->atomic;

	o2g_message_copied(core, list_entry(job, struct o2g_message, copy),
			   status);
	if (atomic)
		o2g_rma_performed(core);
	o2g_core_ask(core);
}
