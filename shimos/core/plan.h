/* SPDX-License-Identifier: MIT */
/* Which part of a partition's memory is kernel, mail and pool. */
#ifndef SHIMOS_PLAN_H
#define SHIMOS_PLAN_H

#include <skep/partition.h>

struct shimos_plan {
	struct skep_partition_range kernel, mail;
	struct skep_partition_range pool[SKEP_PARTITION_RANGES];
	u32 pools;
};

u64 shimos_plan_mail(u32 cores);

/* Divides ranges that were lent, each 2 MiB aligned. The kernel region and the
 * mail come from `node` where they can. 0, or -ENOMEM: too scattered.
 */
int shimos_plan_make(struct shimos_plan *plan,
		     const struct skep_partition_range *range, u32 ranges,
		     u64 kernel, u64 mail, u32 node);

#endif
