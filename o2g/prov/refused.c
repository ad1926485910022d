/* SPDX-License-Identifier: MIT */
/*
 * What the provider does not offer. libfabric's inline functions call through
 * the tables without a check, so every slot needs a function. One function that
 * ignores its arguments serves all slots, which the calling conventions of
 * libfabric's platforms allow.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>

#include "prov.h"

long prov_refused(void)
{
	return -FI_ENOSYS;
}

int prov_bind_refused(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return -FI_EINVAL;
}

int prov_control_refused(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

struct fi_ops_atomic prov_atomic_refused = {
	.size = sizeof(prov_atomic_refused),
	.write = PROV_REFUSED,
	.writev = PROV_REFUSED,
	.writemsg = PROV_REFUSED,
	.inject = PROV_REFUSED,
	.readwrite = PROV_REFUSED,
	.readwritev = PROV_REFUSED,
	.readwritemsg = PROV_REFUSED,
	.compwrite = PROV_REFUSED,
	.compwritev = PROV_REFUSED,
	.compwritemsg = PROV_REFUSED,
	.writevalid = PROV_REFUSED,
	.readwritevalid = PROV_REFUSED,
	.compwritevalid = PROV_REFUSED,
};

struct fi_ops_collective prov_collective_refused = {
	.size = sizeof(prov_collective_refused),
	.barrier = PROV_REFUSED,
	.broadcast = PROV_REFUSED,
	.alltoall = PROV_REFUSED,
	.allreduce = PROV_REFUSED,
	.allgather = PROV_REFUSED,
	.reduce_scatter = PROV_REFUSED,
	.reduce = PROV_REFUSED,
	.scatter = PROV_REFUSED,
	.gather = PROV_REFUSED,
	.msg = PROV_REFUSED,
};
