/* SPDX-License-Identifier: MIT */
/* Fabrics: nothing but the parents of domains and event queues. */
#include <stdlib.h>

#include "prov.h"

static int fabric_close(struct fid *fid)
{
	struct fabric *fabric = (struct fabric *)fid;

	if (atomic_load(&fabric->users))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

bool prov_try_sleep(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return prov_queue_try_sleep((struct queue *)fid);
	case FI_CLASS_CNTR:
		return prov_counter_try_sleep((struct counter *)fid);
	case FI_CLASS_WAIT:
		return prov_wait_try_sleep((struct fid_wait *)fid);
	default:
		return true; /* an event queue, which never has events */
	}
}

static int try_wait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++)
		if (!prov_try_sleep(fids[i]))
			return -FI_EAGAIN;
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = fabric_close,
	.bind = prov_bind_refused,
	.control = prov_control_refused,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_fabric ops = {
	.size = sizeof(ops),
	.domain = prov_domain_open,
	.passive_ep = PROV_REFUSED,
	.eq_open = prov_events_open,
	.wait_open = prov_wait_open,
	.trywait = try_wait,
};

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out,
		     void *context)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fid_ops;
	fabric->fid.ops = &ops;
	fabric->fid.api_version = attr->api_version;
	fabric->version = attr->api_version;
	*out = &fabric->fid;
	return 0;
}
