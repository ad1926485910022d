/* SPDX-License-Identifier: MIT */
/* Memory regions: libo2g needs none, programs that register some may. */
#include <stdlib.h>

#include "prov.h"

struct region {
	PROV_FID(mr);
	struct domain *domain;
};

static int region_close(struct fid *fid)
{
	struct region *region = (struct region *)fid;

	atomic_fetch_sub(&region->domain->users, 1);
	free(region);
	return 0;
}

/* Binding a region to an endpoint or counter, and enabling it, change nothing.
 */
static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)flags;
	return other ? 0 : -FI_EINVAL;
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

static int region_open(struct fid *fid, uint64_t key, struct fid_mr **out,
		       void *context)
{
	struct region *region;

	if (!fid || fid->fclass != FI_CLASS_DOMAIN || !out)
		return -FI_EINVAL;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -FI_ENOMEM;
	region->domain = (struct domain *)fid;
	atomic_fetch_add(&region->domain->users, 1);
	region->fid.fid.fclass = FI_CLASS_MR;
	region->fid.fid.context = context;
	region->fid.fid.ops = &fid_ops;
	region->fid.key = key;
	*out = &region->fid;
	return 0;
}

static int reg(struct fid *fid, const void *buffer, size_t length,
	       uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
	       struct fid_mr **out, void *context)
{
	(void)buffer, (void)length, (void)access, (void)offset, (void)flags;
	return region_open(fid, key, out, context);
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count,
		uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
		struct fid_mr **out, void *context)
{
	(void)iov, (void)count, (void)access, (void)offset, (void)flags;
	return region_open(fid, key, out, context);
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr,
		   uint64_t flags, struct fid_mr **out)
{
	(void)flags;
	if (!attr || attr->iface != FI_HMEM_SYSTEM)
		return -FI_EINVAL;
	return region_open(fid, attr->requested_key, out, attr->context);
}

struct fi_ops_mr prov_mr_ops = {
	.size = sizeof(prov_mr_ops),
	.reg = reg,
	.regv = regv,
	.regattr = regattr,
};
