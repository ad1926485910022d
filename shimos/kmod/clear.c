// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clears memory, so that no user sees another user's data: all memory when it
 * is lent, kernel region and mail after each run, the pool when another user
 * opens the partition and when the memory is returned. Only memory that was
 * written to is cleared: `used` has a bit for each 2 MiB of the pool, which is
 * set when the proxy touches a page there, and after a run from the image's own
 * marks.
 *
 * The partition's lock guards it; only the bits that a proxy's page faults set
 * are atomic. The clearing uses as many threads as the partition has cores.
 *
 * Process context, and may sleep; clear_work runs in a work queue.
 */
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/io.h>
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "partition.h"

static struct workqueue_struct *helpers;

struct job {
	const struct shimos_ranges *set;
	const unsigned long *marks; /* null: clear every block */
	u64 blocks;
	atomic64_t next;
};

struct helper {
	struct work_struct work;
	struct job *job;
};

static void clear_bytes(u64 start, u64 length)
{
	u64 at, part;

	for (at = 0; at < length; at += part) {
		part = min_t(u64, length - at, SZ_64K);
		memset(phys_to_virt(start + at), 0, part);
		cond_resched();
	}
}

/* Each block is cleared by one thread. */
static void run_clear_job(struct job *job)
{
	u64 block, left, start;

	for (;;) {
		block = atomic64_fetch_inc(&job->next);
		if (block >= job->blocks)
			return;
		if (job->marks && !test_bit(block, job->marks))
			continue;
		start = shimos_ranges_place(job->set, block * SZ_2M, &left);
		clear_bytes(start, SZ_2M);
	}
}

static void clear_work(struct work_struct *work)
{
	run_clear_job(container_of(work, struct helper, work)->job);
}

/* The caller clears too, and clears everything if there is no memory for
 * helpers. */
static void carry_out_by(struct job *job, u32 threads)
{
	u32 n = min(threads, num_online_cpus()) - 1, i;
	struct helper *helper = kcalloc(n, sizeof(*helper), GFP_KERNEL);

	for (i = 0; i < n && !ZERO_OR_NULL_PTR(helper); i++) {
		helper[i].job = job;
		INIT_WORK(&helper[i].work, clear_work);
		queue_work(helpers, &helper[i].work);
	}
	run_clear_job(job);
	while (i)
		flush_work(&helper[--i].work);
	kfree(helper);
}

static u64 blocks_of(const struct shimos_partition *p)
{
	return p->plan.bytes / SZ_2M;
}

int shimos_clear_begin(struct shimos_partition *p, struct shimos_text *why)
{
	struct job job = {.set = &p->range};

	lockdep_assert_held(&p->lock);
	p->used = kvcalloc(BITS_TO_LONGS(blocks_of(p)), sizeof(*p->used),
			   GFP_KERNEL);
	if (!p->used)
		return -ENOMEM;
	job.blocks = shimos_ranges_number(&p->range) / SZ_2M;
	carry_out_by(&job, p->cores);
	return 0;
}

void shimos_clear_mark(struct shimos_partition *p, u64 offset)
{
	set_bit(offset / SZ_2M, p->used);
}

/* Adds the image's marks to `used`; returns how many bytes of `kernel` it wrote
 * to. */
static u64 collect_used(struct shimos_partition *p)
{
	void *kernel = phys_to_virt(p->plan.kernel.start);
	struct skep_partition *said = kernel + p->run.partition;
	u64 used;

	if (!p->run.marks) {
		bitmap_fill(p->used, blocks_of(p));
		return p->plan.kernel.length;
	}
	bitmap_or(p->used, p->used, kernel + p->run.used, blocks_of(p));
	used = max(READ_ONCE(said->used_kernel), p->run.free);
	return min(used, p->plan.kernel.length);
}

void shimos_clear_run(struct shimos_partition *p)
{
	lockdep_assert_held(&p->lock);
	if (p->run.image)
		clear_bytes(p->plan.kernel.start, collect_used(p));
	clear_bytes(p->plan.mail.start, p->plan.mail.length);
	memset(&p->run, 0, sizeof(p->run));
	p->dirty = false;
}

void shimos_clear_pool(struct shimos_partition *p)
{
	struct job job = {
		.set = &p->plan.pool, .marks = p->used, .blocks = blocks_of(p)};

	lockdep_assert_held(&p->lock);
	carry_out_by(&job, p->cores);
	bitmap_zero(p->used, job.blocks);
}

int shimos_clear_init(void)
{
	helpers = alloc_workqueue("shimos", WQ_UNBOUND, 0);
	return helpers ? 0 : -ENOMEM;
}

void shimos_clear_exit(void)
{
	destroy_workqueue(helpers);
}
