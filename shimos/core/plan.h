/* SPDX-License-Identifier: MIT */
/* Which parts of a partition's memory are kernel, mail and pool. */
#ifndef SHIMOS_PLAN_H
#define SHIMOS_PLAN_H

#include "ranges.h"

struct shimos_plan {
	struct skep_partition_range kernel, mail;
	struct shimos_ranges pool;
	u64 bytes; /* of the pool */
};

u64 shimos_plan_mail(u32 cores);

/* Divides the lent ranges in plan->pool: splits off the kernel region and the
 * mail, on `node` if possible. Returns 0, or -ENOMEM: memory is too
 * fragmented. */
int shimos_plan_make(struct shimos_plan *plan, u64 kernel, u64 mail, u32 node);

#endif
