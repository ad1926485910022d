/* SPDX-License-Identifier: MIT */
/* Cancelling, and the options of an endpoint. */
#include <string.h>

#include "prov.h"

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct endpoint *ep = (struct endpoint *)fid;
	struct operation *op;
	int error = -FI_ENOENT;

	if (prov_inherited(ep->domain))
		return -FI_EBADF;
	/* The lock keeps the operation from ending and starting anew. */
	prov_lock(&ep->lock);
	op = prov_operation_find(&ep->operations, context);
	if (op)
		error = o2g_cancel(ep->o2g, op);
	prov_unlock(&ep->lock);
	return error < 0 ? error : 0;
}

static int get_option(fid_t fid, int level, int name, void *value,
		      size_t *length)
{
	struct endpoint *ep = (struct endpoint *)fid;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (!value || !length || *length < sizeof(ep->min_left))
		return -FI_ETOOSMALL;
	memcpy(value, &ep->min_left, sizeof(ep->min_left));
	*length = sizeof(ep->min_left);
	return 0;
}

static int set_option(fid_t fid, int level, int name, const void *value,
		      size_t length)
{
	struct endpoint *ep = (struct endpoint *)fid;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (!value || length != sizeof(ep->min_left))
		return -FI_EINVAL;
	memcpy(&ep->min_left, value, sizeof(ep->min_left));
	return 0;
}

struct fi_ops_ep prov_endpoint_ops = {
	.size = sizeof(prov_endpoint_ops),
	.cancel = ep_cancel,
	.getopt = get_option,
	.setopt = set_option,
	.tx_ctx = PROV_REFUSED,
	.rx_ctx = PROV_REFUSED,
	.rx_size_left = PROV_REFUSED,
	.tx_size_left = PROV_REFUSED,
};
