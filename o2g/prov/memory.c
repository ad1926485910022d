/* SPDX-License-Identifier: MIT */
/*
 * Memory regions of a domain: all of its endpoints serve them. Registering
 * local buffers is allowed but not needed.
 */
#include <stdlib.h>

#include "prov.h"

static struct region **region_bucket(struct domain *domain, uint64_t key)
{
	return &domain->regions[(key * 0x9e3779b97f4a7c15u) >> 56];
}

static struct region *region_find(struct domain *domain, uint64_t key)
{
	struct region *region = *region_bucket(domain, key);

	while (region && region->fid.key != key)
		region = region->next;
	return region;
}

static int region_register(const struct region *region, struct endpoint *ep)
{
	const struct o2g_memory memory = {
		.key = region->fid.key,
		.start = region->start,
		.length = region->length,
		.first = region->domain->by_address ? (uintptr_t)region->start
						    : 0,
		.rights = region->rights,
		.cookie = (void *)(uintptr_t)region->fid.key};

	/* FI_RMA is not offered there. */
	return o2g_accesses(ep->o2g) ? o2g_register_memory(ep->o2g, &memory)
				     : 0;
}

static void region_unregister(const struct region *region, struct endpoint *ep)
{
	if (o2g_accesses(ep->o2g))
		(void)o2g_unregister_memory(ep->o2g, region->fid.key);
}

static int region_register_all(struct region *region)
{
	struct endpoint *ep, *undo;
	int error = 0;

	for (ep = region->domain->endpoints; ep; ep = ep->sibling) {
		error = region_register(region, ep);
		if (error)
			break;
	}
	for (undo = region->domain->endpoints; error && undo != ep;
	     undo = undo->sibling)
		region_unregister(region, undo);
	return error;
}

static void region_unregister_all(struct region *region)
{
	for (struct endpoint *ep = region->domain->endpoints; ep;
	     ep = ep->sibling)
		region_unregister(region, ep);
}

int prov_regions_show(struct domain *domain, struct endpoint *ep)
{
	int error = 0;

	for (int i = 0; i < PROV_BUCKETS; i++)
		for (struct region *r = domain->regions[i]; r && !error;
		     r = r->next)
			error = region_register(r, ep);
	return error; /* it closes its endpoint */
}

void prov_region_count(struct domain *domain, uint64_t key, uint64_t what)
{
	struct region *region;

	pthread_mutex_lock(&domain->lock);
	region = region_find(domain, key);
	if (region && region->counter && (region->counted & what))
		prov_counter_count(region->counter, false);
	pthread_mutex_unlock(&domain->lock);
}

/* ---- creation and destruction ---- */

static int region_close(struct fid *fid)
{
	struct region *region = (struct region *)fid;
	struct domain *domain = region->domain;
	struct region **at;

	if (!prov_inherited(domain)) {
		pthread_mutex_lock(&domain->lock);
		at = region_bucket(domain, region->fid.key);
		while (*at != region)
			at = &(*at)->next;
		*at = region->next;
		region_unregister_all(region);
		pthread_mutex_unlock(&domain->lock);
	}
	if (region->counter)
		atomic_fetch_sub(&region->counter->users, 1);
	atomic_fetch_sub(&domain->users, 1);
	free(region);
	return 0;
}

/* From now on each access is reported. After an error it is as before; if even
 * that fails, peers can't use the region any more. */
static int region_report(struct region *region)
{
	int error;

	if (region->rights & O2G_TELL)
		return 0;
	pthread_mutex_lock(&region->domain->lock);
	region_unregister_all(region);
	region->rights |= O2G_TELL;
	error = region_register_all(region);
	if (error) {
		region->rights &= ~(unsigned)O2G_TELL;
		(void)region_register_all(region);
	}
	pthread_mutex_unlock(&region->domain->lock);
	return error;
}

static int bind_counter(struct region *region, struct counter *counter,
			uint64_t flags)
{
	int error;

	if (region->counter || !flags || counter->domain != region->domain ||
	    (flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return -FI_EINVAL;
	error = prov_domain_watch(region->domain, counter);
	if (error)
		return error;
	region->counter = counter;
	region->counted = flags;
	error = region_report(region);
	if (error)
		region->counter = NULL;
	else
		atomic_fetch_add(&counter->users, 1);
	return error;
}

/* Binding a region to an endpoint has no effect: all endpoints of the domain
 * serve it. */
static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct region *region = (struct region *)fid;

	if (!other || prov_inherited(region->domain))
		return other ? -FI_EBADF : -FI_EINVAL;
	if (other->fclass == FI_CLASS_CNTR)
		return bind_counter(region, (struct counter *)other, flags);
	return other->fclass == FI_CLASS_EP ? 0 : -FI_EINVAL;
}

static int region_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = region_close,
	.bind = region_bind,
	.control = region_control,
	.ops_open = PROV_REFUSED,
};

/* The memory to register. */
struct wish {
	const void *start;
	size_t length;
	uint64_t access, key, flags;
	void *context;
};

static void region_fill(struct region *region, struct domain *domain,
			const struct wish *wish)
{
	region->domain = domain;
	region->start = (void *)wish->start;
	region->length = wish->length;
	region->rights = (wish->access & FI_REMOTE_READ ? O2G_MAY_READ : 0u) |
			 (wish->access & FI_REMOTE_WRITE ? O2G_MAY_WRITE : 0u) |
			 (domain->tells ? O2G_TELL : 0u);
	region->fid.key = domain->own_keys ? domain->next_key++ : wish->key;
	region->fid.fid.fclass = FI_CLASS_MR;
	region->fid.fid.context = wish->context;
	region->fid.fid.ops = &fid_ops;
}

static int region_add(struct domain *domain, struct region *region,
		      const struct wish *wish)
{
	struct region **at;
	int error;

	region_fill(region, domain, wish);
	if (region_find(domain, region->fid.key))
		return -FI_ENOKEY;
	error = region_register_all(region);
	if (error)
		return error;
	at = region_bucket(domain, region->fid.key);
	region->next = *at;
	*at = region;
	atomic_fetch_add(&domain->users, 1);
	return 0;
}

static int region_open(struct fid *fid, const struct wish *wish,
		       struct fid_mr **out)
{
	struct domain *domain = (struct domain *)fid;
	struct region *region;
	int error;

	if (!fid || fid->fclass != FI_CLASS_DOMAIN || !out ||
	    (wish->flags & ~FI_RMA_EVENT))
		return -FI_EINVAL;
	if (prov_inherited(domain))
		return -FI_EBADF;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -FI_ENOMEM;
	pthread_mutex_lock(&domain->lock);
	error = region_add(domain, region, wish);
	pthread_mutex_unlock(&domain->lock);
	if (error) {
		free(region);
		return error;
	}
	*out = &region->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buffer, size_t length,
		  uint64_t access, uint64_t offset, uint64_t key,
		  uint64_t flags, struct fid_mr **out, void *context)
{
	const struct wish wish = {buffer, length, access, key, flags, context};

	(void)offset; /* reserved */
	return region_open(fid, &wish, out);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count,
		   uint64_t access, uint64_t offset, uint64_t key,
		   uint64_t flags, struct fid_mr **out, void *context)
{
	if (count != 1 || !iov)
		return -FI_EINVAL; /* mr_iov_limit */
	return mr_reg(fid, iov->iov_base, iov->iov_len, access, offset, key,
		      flags, out, context);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **out)
{
	if (!attr || attr->iface != FI_HMEM_SYSTEM)
		return -FI_EINVAL;
	return mr_regv(fid, attr->mr_iov, attr->iov_count, attr->access,
		       attr->offset, attr->requested_key, flags, out,
		       attr->context);
}

struct fi_ops_mr prov_mr_ops = {
	.size = sizeof(prov_mr_ops),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
