/* SPDX-License-Identifier: MIT */
/* Domains: the parents of everything that moves messages. */
#include <stdlib.h>

#include "prov.h"

static int join_endpoints(struct domain *domain, struct endpoint *ep)
{
	int error;

	pthread_mutex_lock(&domain->lock);
	error = prov_regions_show(domain, ep);
	if (!error) {
		ep->sibling = domain->endpoints;
		domain->endpoints = ep;
	}
	pthread_mutex_unlock(&domain->lock);
	return error;
}

static void leave_endpoints(struct domain *domain, struct endpoint *ep)
{
	struct endpoint **at = &domain->endpoints;

	pthread_mutex_lock(&domain->lock);
	while (*at && *at != ep)
		at = &(*at)->sibling;
	if (*at)
		*at = ep->sibling;
	pthread_mutex_unlock(&domain->lock);
}

int prov_domain_join(struct domain *domain, struct endpoint *ep)
{
	struct counter *counter;
	int error;

	pthread_mutex_lock(&domain->watch_lock);
	error = join_endpoints(domain, ep);
	for (counter = domain->watchers; counter && !error;
	     counter = counter->next_watcher)
		error = prov_source_add(&counter->source, ep);
	pthread_mutex_unlock(&domain->watch_lock);
	if (error)
		prov_domain_leave(domain, ep);
	return error;
}

void prov_domain_leave(struct domain *domain, struct endpoint *ep)
{
	struct counter *counter;

	if (prov_inherited(domain))
		return;
	pthread_mutex_lock(&domain->watch_lock);
	leave_endpoints(domain, ep);
	for (counter = domain->watchers; counter;
	     counter = counter->next_watcher)
		prov_source_remove(&counter->source, ep);
	pthread_mutex_unlock(&domain->watch_lock);
}

int prov_domain_watch(struct domain *domain, struct counter *counter)
{
	struct endpoint *ep;
	int error = 0;

	pthread_mutex_lock(&domain->watch_lock);
	if (!counter->watches) {
		counter->watches = true;
		counter->next_watcher = domain->watchers;
		domain->watchers = counter;
	}
	for (ep = domain->endpoints; ep && !error; ep = ep->sibling)
		error = prov_source_add(&counter->source, ep);
	pthread_mutex_unlock(&domain->watch_lock);
	return error;
}

void prov_domain_unwatch(struct domain *domain, struct counter *counter)
{
	struct counter **at = &domain->watchers;

	if (!counter->watches || prov_inherited(domain))
		return;
	pthread_mutex_lock(&domain->watch_lock);
	while (*at != counter)
		at = &(*at)->next_watcher;
	*at = counter->next_watcher;
	pthread_mutex_unlock(&domain->watch_lock);
}

static int domain_close(struct fid *fid)
{
	struct domain *domain = (struct domain *)fid;

	if (atomic_load(&domain->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&domain->fabric->users, 1);
	pthread_mutex_destroy(&domain->watch_lock);
	pthread_mutex_destroy(&domain->lock);
	free(domain);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = domain_close,
	.bind = prov_bind_refused,
	.control = prov_control_refused,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_domain ops = {
	.size = sizeof(ops),
	.av_open = prov_vector_open,
	.cq_open = prov_queue_open,
	.endpoint = prov_endpoint_open,
	.scalable_ep = PROV_REFUSED,
	.cntr_open = prov_counter_open,
	.poll_open = prov_poll_open,
	.stx_ctx = PROV_REFUSED,
	.srx_ctx = PROV_REFUSED,
	.query_atomic = prov_atomic_query,
	.query_collective = PROV_REFUSED,
};

int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info,
		     struct fid_domain **out, void *context)
{
	struct domain *domain;

	if (!info || !info->domain_attr)
		return -FI_EINVAL;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	domain->fabric = (struct fabric *)fabric;
	domain->forks = prov_forks;
	domain->serial = info->domain_attr->threading == FI_THREAD_DOMAIN;
	domain->by_address =
		info->domain_attr->mr_mode & (PROV_MR_BASIC | FI_MR_VIRT_ADDR);
	domain->own_keys =
		info->domain_attr->mr_mode & (PROV_MR_BASIC | FI_MR_PROV_KEY);
	domain->next_key = 1;
	domain->format = prov_address_size(info->addr_format) == O2G_NAME_SIZE
				 ? FI_FORMAT_UNSPEC
				 : info->addr_format;
	pthread_mutex_init(&domain->watch_lock, NULL);
	pthread_mutex_init(&domain->lock, NULL);
	atomic_fetch_add(&domain->fabric->users, 1);
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &fid_ops;
	domain->fid.ops = &ops;
	domain->fid.mr = &prov_mr_ops;
	*out = &domain->fid;
	return 0;
}
