// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program's memory, in contexts that have it: a call of the program, or a
 * worker between o2g_program_enter() and o2g_program_leave(). No lock is held,
 * because a page fault may take as long as the program wants.
 *
 * Context: process; o2g_host_copy(), which only queues, any, with the engine's
 * lock.
 */
#include <linux/kthread.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

#define BOUNCE_SIZE 0x4000ul

/* Whether no process has the memory any more, only workers like this one. */
bool o2g_program_gone(const struct o2g_engine *engine)
{
#ifdef CONFIG_MEMCG
	return !READ_ONCE(engine->mm->owner);
#else
	return false;
#endif
}

int o2g_program_enter(struct o2g_engine *engine)
{
	might_sleep();
	if (o2g_program_gone(engine) || !mmget_not_zero(engine->mm))
		return -EFAULT;
	kthread_use_mm(engine->mm);
	return 0;
}

/* Must not be the last user: the memory would be torn down here, maybe under a
 * socket's lock. So a worker does that. */
void o2g_program_leave(struct o2g_engine *engine)
{
	kthread_unuse_mm(engine->mm);
	mmput_async(engine->mm);
}

/* The caller holds the engine's lock, so this only queues the job for a context
 * that has the program's memory. */
int o2g_host_copy(void *ctx, struct o2g_copy *job)
{
	struct o2g_engine *engine = ctx;

	lockdep_assert_held(&engine->lock);
	job->engine = NULL;
	*engine->last = job;
	engine->last = (struct o2g_copy **)&job->engine;
	return O2G_COPY_LATER;
}

static void __user *program_address(const struct o2g_piece *piece, u64 at)
{
	return (void __user *)(unsigned long)(piece->address + at);
}

static void *kernel_at(struct o2g_engine *engine, const struct o2g_piece *piece,
		       u64 at, u64 *length)
{
	if (piece->place == O2G_PLACE_CORE)
		return piece->core + at;
	return o2g_area_at(engine, piece->address + at, length, false);
}

/* Copies one contiguous part: returns its length, or -errno. Source or
 * destination, or both, are in the program's memory. */
static s64 copy_stretch(struct o2g_engine *engine, const struct o2g_copy *job,
			u64 at, void *bounce)
{
	const bool from = job->from.place == O2G_PLACE_PROGRAM;
	const bool to = job->to.place == O2G_PLACE_PROGRAM;
	u64 length = min_t(u64, job->to.length - at, BOUNCE_SIZE);
	u64 stretch = length;
	void *here = bounce;

	if (!from || !to)
		here = kernel_at(engine, from ? &job->to : &job->from, at,
				 &stretch);
	if (!here)
		return -ENOMEM;
	length = min(length, stretch);
	if (from &&
	    copy_from_user(here, program_address(&job->from, at), length))
		return -EFAULT;
	if (to && copy_to_user(program_address(&job->to, at), here, length))
		return -EFAULT;
	return length;
}

static int run_copy(struct o2g_engine *engine, const struct o2g_copy *job,
		    void *bounce)
{
	u64 at = 0;

	while (at < job->to.length) {
		s64 n = copy_stretch(engine, job, at, bounce);

		if (n < 0)
			return n;
		if (READ_ONCE(engine->closed) || fatal_signal_pending(current))
			return -ECANCELED;
		at += n;
		cond_resched();
	}
	return 0;
}

static int copy_bounced(struct o2g_engine *engine, const struct o2g_copy *job)
{
	void *bounce = NULL;
	int rc;

	if (job->from.place == job->to.place) {
		bounce = kmalloc(BOUNCE_SIZE, GFP_KERNEL_ACCOUNT);
		if (!bounce)
			return -ENOMEM;
	}
	rc = run_copy(engine, job, bounce);
	kfree(bounce);
	return rc;
}

void o2g_program_copy(struct o2g_engine *engine, struct o2g_copy *jobs,
		      int error)
{
	while (jobs) {
		struct o2g_copy *job = jobs;
		int rc = error	       ? error
			 : job->atomic ? o2g_program_atomic(engine, job)
				       : copy_bounced(engine, job);

		/* read first: the job may be freed when it is done */
		jobs = job->engine;
		o2g_engine_lock(engine);
		if (engine->core && job->to.place == O2G_PLACE_PROGRAM && !rc)
			engine->counts.direct_bytes += job->to.length;
		if (engine->core)
			o2g_copy_done(engine->core, job, rc);
		o2g_engine_unlock(engine, NULL);
	}
}
