// SPDX-License-Identifier: MIT
#include "plan.h"
#include "base/errno.h"

#define SLOT 0x40000 /* bytes of mail of each core, and of the partition */

u64 shimos_plan_mail(u32 cores)
{
	u64 n = (u64)(cores + 1) * SLOT;

	return (n + SKEP_PARTITION_ALIGN - 1) & ~(SKEP_PARTITION_ALIGN - 1ull);
}

/* Finds the smallest range that is large enough, so that large ranges are not
 * split; or -1. */
static s64 find_best_fit(const struct shimos_ranges *set, u64 length, u32 node,
			 int anywhere)
{
	const struct skep_partition_range *r = set->at;
	s64 best = -1;
	u32 i;

	for (i = 0; i < set->count; i++)
		if (r[i].length >= length && (anywhere || r[i].node == node) &&
		    (best < 0 || r[i].length < r[best].length))
			best = i;
	return best;
}

static int cut_range(struct shimos_ranges *set, u64 length, u32 node,
		     struct skep_partition_range *out)
{
	s64 i = find_best_fit(set, length, node, 0);

	if (i < 0)
		i = find_best_fit(set, length, node, 1);
	if (i < 0)
		return -LINUX_ENOMEM;
	*out = set->at[i];
	out->length = length;
	shimos_ranges_cut(set, (u32)i, length);
	return 0;
}

int shimos_plan_make(struct shimos_plan *p, u64 kernel, u64 mail, u32 node)
{
	int err = cut_range(&p->pool, kernel, node, &p->kernel);

	if (!err)
		err = cut_range(&p->pool, mail, node, &p->mail);
	if (!err && !p->pool.count)
		err = -LINUX_ENOMEM;
	if (!err)
		p->bytes = shimos_ranges_number(&p->pool);
	return err;
}
