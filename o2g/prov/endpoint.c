/* SPDX-License-Identifier: MIT */
/* Endpoints: opening, binding, enabling, closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prov.h"

#define SIDE_FLAGS (FI_TRANSMIT | FI_RECV)

/* The flags with which a counter is bound. */
static const uint64_t counted[PROV_COUNTS] = {
	[PROV_SENDS] = FI_SEND,		 [PROV_RECVS] = FI_RECV,
	[PROV_READS] = FI_READ,		 [PROV_WRITES] = FI_WRITE,
	[PROV_READ_OF] = FI_REMOTE_READ, [PROV_WRITTEN_TO] = FI_REMOTE_WRITE,
};
#define FROM_PEERS (FI_REMOTE_READ | FI_REMOTE_WRITE)

static int bind_vector(struct endpoint *ep, struct vector *vector)
{
	int error;

	if (ep->vector)
		return -FI_EINVAL;
	error = prov_vector_join(vector, ep);
	if (!error)
		ep->vector = vector;
	return error;
}

static int bind_events(struct endpoint *ep, struct events *events)
{
	if (ep->events)
		return -FI_EINVAL;
	ep->events = events;
	atomic_fetch_add(&events->users, 1);
	return 0;
}

static void set_queue(struct side *side, struct queue *queue, uint64_t flags)
{
	side->queue = queue;
	side->selective = flags & FI_SELECTIVE_COMPLETION;
	atomic_fetch_add(&queue->users, 1);
}

static int bind_queue(struct endpoint *ep, struct queue *queue, uint64_t flags)
{
	int error;

	if ((flags & ~(SIDE_FLAGS | FI_SELECTIVE_COMPLETION)) ||
	    !(flags & SIDE_FLAGS) || ((flags & FI_TRANSMIT) && ep->tx.queue) ||
	    ((flags & FI_RECV) && ep->rx.queue))
		return -FI_EINVAL;
	error = prov_source_add(&queue->source, ep);
	if (error)
		return error;
	if (flags & FI_TRANSMIT)
		set_queue(&ep->tx, queue, flags);
	if (flags & FI_RECV)
		set_queue(&ep->rx, queue, flags);
	return 0;
}

static int counter_fits(struct endpoint *ep, uint64_t flags)
{
	for (int i = 0; i < PROV_COUNTS; i++) {
		if ((flags & counted[i]) && ep->counter[i])
			return 0;
		flags &= ~counted[i];
	}
	return !flags;
}

static int bind_counter(struct endpoint *ep, struct counter *counter,
			uint64_t flags)
{
	int error;

	if (!flags || !counter_fits(ep, flags))
		return -FI_EINVAL;
	error = prov_source_add(&counter->source, ep);
	if (error)
		return error;
	for (int i = 0; i < PROV_COUNTS; i++) {
		if (!(flags & counted[i]))
			continue;
		ep->counter[i] = counter;
		atomic_fetch_add(&counter->users, 1);
	}
	if (flags & FROM_PEERS)
		ep->domain->tells = true;
	return 0;
}

static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct endpoint *ep = (struct endpoint *)fid;

	if (!other)
		return -FI_EINVAL;
	if (atomic_load(&ep->enabled))
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_AV:
		return bind_vector(ep, (struct vector *)other);
	case FI_CLASS_CQ:
		return bind_queue(ep, (struct queue *)other, flags);
	case FI_CLASS_CNTR:
		return bind_counter(ep, (struct counter *)other, flags);
	case FI_CLASS_EQ:
		return bind_events(ep, (struct events *)other);
	default:
		return -FI_EINVAL;
	}
}

static int endpoint_enable(struct endpoint *ep)
{
	if (!ep->vector)
		return -FI_ENOAV;
	if ((!ep->tx.queue && !ep->counter[PROV_SENDS]) ||
	    (!ep->rx.queue && !ep->counter[PROV_RECVS]))
		return -FI_ENOCQ;
	atomic_store_explicit(&ep->enabled, true, memory_order_release);
	return 0;
}

/* Flags that select one direction, and change only that. */
static int change_flags(struct endpoint *ep, int command, uint64_t *flags)
{
	struct side *side;

	if (!flags || !(*flags & SIDE_FLAGS) ||
	    (*flags & SIDE_FLAGS) == SIDE_FLAGS)
		return -FI_EINVAL;
	side = *flags & FI_TRANSMIT ? &ep->tx : &ep->rx;
	if (command == FI_GETOPSFLAG)
		*flags = side->op_flags;
	else
		side->op_flags = *flags & ~SIDE_FLAGS;
	return 0;
}

static int endpoint_control(struct fid *fid, int command, void *arg)
{
	struct endpoint *ep = (struct endpoint *)fid;

	switch (command) {
	case FI_ENABLE:
		return endpoint_enable(ep);
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
		return change_flags(ep, command, arg);
	default:
		return -FI_ENOSYS;
	}
}

static void side_unbind(struct endpoint *ep, struct side *side)
{
	if (side->queue) {
		prov_source_remove(&side->queue->source, ep);
		atomic_fetch_sub(&side->queue->users, 1);
	}
}

static void unbind_counters(struct endpoint *ep)
{
	for (int i = 0; i < PROV_COUNTS; i++) {
		if (!ep->counter[i])
			continue;
		prov_source_remove(&ep->counter[i]->source, ep);
		atomic_fetch_sub(&ep->counter[i]->users, 1);
	}
}

static int endpoint_close(struct fid *fid)
{
	struct endpoint *ep = (struct endpoint *)fid;
	bool inherited = prov_inherited(ep->domain);
	int error;

	side_unbind(ep, &ep->tx);
	side_unbind(ep, &ep->rx);
	unbind_counters(ep);
	prov_domain_leave(ep->domain, ep);
	if (ep->vector)
		prov_vector_leave(ep->vector, ep);
	if (ep->events)
		atomic_fetch_sub(&ep->events->users, 1);
	error = inherited ? 0 : o2g_close(ep->o2g, ep->linger_ms);
	if (error < 0)
		prov_log(FI_LOG_WARN, FI_LOG_EP_CTRL, "closing: %s",
			 o2g_error());
	atomic_fetch_sub(&ep->domain->users, 1);
	if (inherited)
		return 0; /* its memory may be inconsistent */
	prov_operations_free(&ep->operations);
	prov_lock_destroy(&ep->polling);
	prov_lock_destroy(&ep->lock);
	free(ep->peer);
	free(ep->address);
	free(ep);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = endpoint_close,
	.bind = endpoint_bind,
	.control = endpoint_control,
	.ops_open = PROV_REFUSED,
};

/* The address that the program chose to listen at; with a service alone, the
 * user's setting. */
static int choose_place(const struct fi_info *info, struct prov_listen *place,
			struct o2g_options *options)
{
	const char *wanted = getenv("SKEP_O2G_IFACE");

	if (!info->src_addr ||
	    prov_address_size(info->addr_format) == O2G_NAME_SIZE)
		return 0;
	if (info->src_addrlen < prov_address_size(info->addr_format) ||
	    prov_address_listen(info->addr_format, info->src_addr, place))
		return -FI_EINVAL;
	if (*place->ports)
		options->ports = place->ports;
	if (!place->any || (!options->interface && !(wanted && *wanted)))
		options->interface = place->host;
	return 0;
}

static int open_messages(struct endpoint *ep, const struct fi_info *info)
{
	struct o2g_options options = {.size = sizeof(options)};
	const char *wanted = getenv("SKEP_O2G_NAP_US");
	struct prov_tunables tunables;
	struct prov_listen place;
	int error;

	error = prov_tunables_read(&tunables);
	if (error)
		return error;
	options.interface = tunables.interface;
	options.ports = tunables.ports;
	error = choose_place(info, &place, &options);
	if (error)
		return error;
	options.engine = tunables.engine;
	options.credit = (uint32_t)tunables.credit;
	options.unexpected = tunables.unexpected;
	options.operations = (uint32_t)tunables.operations;
	options.nap_us = (uint32_t)tunables.nap_us;
	ep->naps = tunables.nap_us || (wanted && *wanted);
	ep->linger_ms = (int)tunables.linger_ms;
	error = o2g_open(&ep->o2g, &options);
	if (error) { /* on standard error, also if libfabric's log is off */
		fprintf(stderr, "libo2g-fi: %s\n", o2g_error());
		return error;
	}
	ep->copy_max = o2g_copy_max(ep->o2g);
	prov_log(FI_LOG_INFO, FI_LOG_EP_CTRL, "engine %s, copies up to %zu",
		 o2g_engine_name(ep->o2g), ep->copy_max);
	return 0;
}

static void endpoint_fill(struct endpoint *ep, const struct fi_info *info)
{
	ep->caps = info->caps;
	ep->min_left = 64;
	if (info->tx_attr)
		ep->tx.op_flags = info->tx_attr->op_flags;
	if (info->rx_attr)
		ep->rx.op_flags = info->rx_attr->op_flags;
	ep->injected.flags = FI_SEND | FI_MSG;
	ep->injected_tagged.flags = FI_SEND | FI_TAGGED;
	ep->injected_write.flags = FI_RMA | FI_WRITE;
	ep->injected_atomic.flags = FI_ATOMIC | FI_WRITE;
	prov_lock_init(&ep->polling, ep->domain->serial);
	prov_lock_init(&ep->lock, ep->domain->serial);
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.ops = &fid_ops;
	ep->fid.ops = &prov_endpoint_ops;
	ep->fid.cm = &prov_name_ops;
	ep->fid.msg = &prov_msg_ops;
	ep->fid.tagged = &prov_tagged_ops;
	ep->fid.rma = &prov_rma_ops;
	ep->fid.atomic = info->caps & FI_ATOMIC ? &prov_atomic_ops
						: &prov_atomic_refused;
	ep->fid.collective = &prov_collective_refused;
}

int prov_endpoint_open(struct fid_domain *domain, struct fi_info *info,
		       struct fid_ep **out, void *context)
{
	struct endpoint *ep;
	int error;

	if (!info || (info->ep_attr && info->ep_attr->type != FI_EP_RDM))
		return -FI_EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	error = open_messages(ep, info);
	if (error) {
		free(ep);
		return error;
	}
	ep->domain = (struct domain *)domain;
	endpoint_fill(ep, info);
	error = prov_domain_join(ep->domain, ep);
	if (error) {
		(void)o2g_close(ep->o2g, 0);
		prov_lock_destroy(&ep->polling);
		prov_lock_destroy(&ep->lock);
		free(ep);
		return error;
	}
	ep->fid.fid.context = context;
	atomic_fetch_add(&ep->domain->users, 1);
	*out = &ep->fid;
	return 0;
}
