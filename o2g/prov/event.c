/* SPDX-License-Identifier: MIT */
/* What libo2g reports becomes completions and counts. */
#include "prov.h"

#define BATCH 16

/* Frees the operation, unless it goes on, and keeps what it said. */
static struct operation finish(struct endpoint *ep, const struct o2g_event *ev,
			       fi_addr_t *from)
{
	struct operation *op = ev->cookie;
	struct operation was;

	prov_lock(&ep->lock);
	was = *op;
	*from = ev->peer < ep->addresses ? ep->address[ev->peer]
					 : FI_ADDR_NOTAVAIL;
	if (op != &ep->injected && op != &ep->injected_tagged &&
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

static void fill(struct completion *c, const struct operation *op,
		 const struct o2g_event *ev)
{
	c->entry.op_context = op->context;
	c->entry.flags = op->flags;
	if (ev->what == O2G_SENT)
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

static void settle(struct endpoint *ep, const struct o2g_event *ev)
{
	struct side *side = ev->what == O2G_SENT ? &ep->tx : &ep->rx;
	struct completion c = {0};
	struct operation op = finish(ep, ev, &c.from);

	fill(&c, &op, ev);
	if (ev->status)
		set_error(&c, ev);
	else if (op.claim)
		keep_claim(ep, op.context, ev->handle);
	/* There is room: see prov_endpoint_progress(). */
	if (side->queue && (op.report || c.error))
		(void)prov_queue_put(side->queue, &c);
	if (side->counter && op.counted)
		prov_counter_count(side->counter, c.error);
}

bool prov_endpoint_awaited(struct endpoint *ep)
{
	return ep->naps &&
	       atomic_load(&ep->operations.busy) > atomic_load(&ep->standing);
}

static bool full(const struct side *side)
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
	if (!full(&ep->tx) && !full(&ep->rx))
		n = o2g_poll(ep->o2g, event, BATCH);
	for (int i = 0; i < n; i++)
		settle(ep, &event[i]);
	prov_unlock(&ep->polling);
	return n;
}
