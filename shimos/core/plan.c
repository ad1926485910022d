// SPDX-License-Identifier: MIT
#include "plan.h"
#include "error.h"

#define SLOT 0x40000 /* of mail: for each core, and one for all */

u64 shimos_plan_mail(u32 cores)
{
	u64 n = (u64)(cores + 1) * SLOT;

	return (n + SKEP_PARTITION_ALIGN - 1) & ~(SKEP_PARTITION_ALIGN - 1ull);
}

/* The smallest range that holds it, so that large ones stay whole. */
static struct skep_partition_range *fit(struct shimos_plan *p, u64 length,
					u32 node, int anywhere)
{
	struct skep_partition_range *best = (void *)0, *r;

	for (r = p->pool; r < p->pool + p->pools; r++)
		if (r->length >= length && (anywhere || r->node == node) &&
		    (!best || r->length < best->length))
			best = r;
	return best;
}

static int cut(struct shimos_plan *p, u64 length, u32 node,
	       struct skep_partition_range *out)
{
	struct skep_partition_range *r = fit(p, length, node, 0);

	if (!r)
		r = fit(p, length, node, 1);
	if (!r)
		return -SHIMOS_ENOMEM;
	*out = *r;
	out->length = length;
	r->start += length;
	r->length -= length;
	if (!r->length)
		*r = p->pool[--p->pools];
	return 0;
}

int shimos_plan_make(struct shimos_plan *p,
		     const struct skep_partition_range *range, u32 ranges,
		     u64 kernel, u64 mail, u32 node)
{
	u32 i;
	int err;

	if (ranges > SKEP_PARTITION_RANGES)
		return -SHIMOS_EINVAL;
	for (i = 0; i < ranges; i++)
		p->pool[i] = range[i];
	p->pools = ranges;
	err = cut(p, kernel, node, &p->kernel);
	if (!err)
		err = cut(p, mail, node, &p->mail);
	if (!err && !p->pools)
		err = -SHIMOS_ENOMEM;
	return err;
}
