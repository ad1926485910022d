/* SPDX-License-Identifier: MIT */
/* Turns events of libo2g into completions and counts. */
#include "prov.h"

#define BATCH 16

/* Copies the operation, and frees it unless it continues. */
static struct operation finish_operation(struct endpoint *ep,
					 const struct o2g_event *ev,
					 fi_addr_t *from)
{
	struct operation *op = ev->cookie;
	struct operation was;

	prov_lock(&ep->lock);
	was = *op;
	*from = ev->peer < ep->addresses ? ep->address[ev->peer]
					 : FI_ADDR_NOTAVAIL;
	if (op != &ep->injected && op != &ep->injected_tagged &&
	    op != &ep->injected_write && op != &ep->injected_atomic &&
	    !(ev->flags & O2G_STAYS_POSTED))
		prov_operation_give(&ep->operations, op);
	if ((was.flags & FI_MULTI_RECV) && !(ev->flags & O2G_STAYS_POSTED))
		atomic_fetch_sub(&ep->standing, 1);
	prov_unlock(&ep->lock);
	return was;
}

static void keep_claim(struct endpoint *ep, void *context, uint64_t handle)
{
	struct fi_context *keep = context;

	keep->internal[0] = (void *)(uintptr_t)handle;
	keep->internal[1] = ep;
}

/* Whether the event ends a send, or an access to a peer's memory. */
static bool event_of_send(const struct o2g_event *ev)
{
	return ev->what == O2G_SENT || ev->what == O2G_PUT ||
	       ev->what == O2G_GOT || ev->what == O2G_CHANGED;
}

static struct counter *counter_of(const struct endpoint *ep,
				  const struct o2g_event *ev,
				  const struct operation *op)
{
	switch (ev->what) {
	case O2G_SENT:
		return ep->counter[PROV_SENDS];
	case O2G_PUT:
		return ep->counter[PROV_WRITES];
	case O2G_GOT:
		return ep->counter[PROV_READS];
	case O2G_CHANGED:
		return ep->counter[op->flags & FI_READ ? PROV_READS
						       : PROV_WRITES];
	}
	return ep->counter[PROV_RECVS];
}

/* Handles an access of a peer to our memory, which is no operation of ours. */
static void settle_access(struct endpoint *ep, const struct o2g_event *ev)
{
	const bool write = ev->what == O2G_WAS_WRITTEN;
	const uint64_t how = write ? FI_REMOTE_WRITE : FI_REMOTE_READ;
	struct counter *counter =
		ep->counter[write ? PROV_WRITTEN_TO : PROV_READ_OF];
	struct completion c = {
		.entry = {.flags = FI_RMA | how | FI_REMOTE_CQ_DATA,
			  .len = ev->length,
			  .buf = ev->where,
			  .data = ev->data}};

	if (counter)
		prov_counter_count(counter, false);
	prov_region_count(ep->domain, (uintptr_t)ev->cookie, how);
	if (!(ev->flags & O2G_HAS_DATA) || !ep->rx.queue)
		return;
	prov_lock(&ep->lock);
	c.from = ev->peer < ep->addresses ? ep->address[ev->peer]
					  : FI_ADDR_NOTAVAIL;
	prov_unlock(&ep->lock);
	(void)prov_queue_put(ep->rx.queue, &c);
}

static void fill_completion(struct completion *c, const struct operation *op,
			    const struct o2g_event *ev)
{
	c->entry.op_context = op->context;
	c->entry.flags = op->flags;
	if (event_of_send(ev))
		return;
	c->entry.tag = ev->tag;
	c->entry.len = ev->length;
	if (ev->flags & O2G_HAS_DATA) {
		c->entry.flags |= FI_REMOTE_CQ_DATA;
		c->entry.data = ev->data;
	}
	if (!(op->flags & FI_MULTI_RECV))
		return;
	c->entry.buf = ev->where;
	if (ev->flags & O2G_STAYS_POSTED)
		c->entry.flags &= ~FI_MULTI_RECV;
}

static void set_error(struct completion *c, const struct o2g_event *ev)
{
	c->error = -ev->status;
	if (ev->status == -EMSGSIZE && ev->what == O2G_RECEIVED) {
		c->error = FI_ETRUNC;
		c->cut = ev->total - ev->length;
	}
}

static void report_event(struct endpoint *ep, const struct o2g_event *ev)
{
	struct side *side = event_of_send(ev) ? &ep->tx : &ep->rx;
	struct completion c = {0};
	struct operation op = finish_operation(ep, ev, &c.from);
	struct counter *counter = counter_of(ep, ev, &op);

	fill_completion(&c, &op, ev);
	if (ev->status)
		set_error(&c, ev);
	else if (op.claim)
		keep_claim(ep, op.context, ev->handle);
	/* There is always space: see prov_endpoint_progress(). */
	if (side->queue && (op.report || c.error))
		(void)prov_queue_put(side->queue, &c);
	if (counter && op.counted)
		prov_counter_count(counter, c.error);
}

bool prov_endpoint_awaited(struct endpoint *ep)
{
	return ep->naps &&
	       atomic_load(&ep->operations.busy) > atomic_load(&ep->standing);
}

static bool side_full(const struct side *side)
{
	return side->queue && prov_queue_half_full(side->queue);
}

int prov_endpoint_progress(struct endpoint *ep)
{
	struct o2g_event event[BATCH];
	int n = 0;

	/* One at a time, so that events keep their order. */
	if (!prov_trylock(&ep->polling))
		return prov_inherited(ep->domain) ? -FI_EBADF : 0;
	if (!side_full(&ep->tx) && !side_full(&ep->rx))
		n = o2g_poll(ep->o2g, event, BATCH);
	for (int i = 0; i < n; i++)
		if (event[i].what == O2G_WAS_WRITTEN ||
		    event[i].what == O2G_WAS_READ)
			settle_access(ep, &event[i]);
		else
			report_event(ep, &event[i]);
	prov_unlock(&ep->polling);
	return n;
}
