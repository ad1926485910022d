// SPDX-License-Identifier: GPL-2.0-only
/*
 * An engine from its creation to its end, and the contexts that work on its
 * core: softirqs and workers of its links, calls of the program, and turn_work
 * for what may sleep.
 *
 * An engine is ended by a call, with its file, or by end_work when the program
 * has no mapping of the area any more. Then it refuses new work (`closed`),
 * detaches the links, waits for work in progress (`use`, the workqueue), and
 * frees the core.
 *
 * Context: o2g_engine_lock() and unlock() any, softirqs too; all else is
 * process context, calls of the program or workers of the engine.
 */
#include <linux/completion.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/string.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "internal.h"

#define SUBMISSIONS_MAX 64 /* submissions read at a time */
#define WORKERS_MAX 16	   /* per engine; they may block in page faults */
#define BYES_MAX 64	   /* connections between two unlocks */
#define POSTINGS_MAX 0x1000000
#define PEERS_MAX 0x100000
#define MEMORY_DELAY (HZ / 10) /* until allocation is tried again */
#define SLEEP_MAX_US (3600ull * USEC_PER_SEC)

/* ---- lock and unlock ---- */

void o2g_engine_lock(struct o2g_engine *engine)
{
	spin_lock_bh(&engine->lock);
	__release(&engine->lock); /* sparse checks only one function */
}

/* Returns true if there is work left that may sleep or exceeds the budget. */
static bool settle_engine(struct o2g_engine *engine, struct list_head *mine,
			  bool *wake)
{
	const bool left = o2g_rx_resume(engine);

	o2g_tx_share(engine, mine);
	*wake = o2g_core_wakes(engine->core);
	engine->rung |= *wake;
	engine->counts.wakes += *wake;
	return left || engine->jobs || o2g_core_more(engine->core) ||
	       READ_ONCE(engine->pages.lacking) ||
	       (!engine->poor && o2g_memory_wanted(engine));
}

static void unlock_engine(struct o2g_engine *engine, bool wake)
{
	__acquire(&engine->lock);
	spin_unlock_bh(&engine->lock);
	if (wake)
		wake_up_poll(&engine->wait, EPOLLIN | EPOLLRDNORM);
}

void o2g_engine_unlock(struct o2g_engine *engine, struct list_head *mine)
{
	bool wake = false;

	if (!engine->closed && settle_engine(engine, mine, &wake))
		mod_delayed_work(engine->workers, &engine->turn_work, 0);
	unlock_engine(engine, wake);
}

/* 0 while the engine is open. */
static int engine_refusal(const struct o2g_engine *engine)
{
	if (!engine->closed)
		return 0;
	return engine->broken ? -EPROTO : -ESHUTDOWN;
}

/* ---- turns ---- */

static struct o2g_copy *take_jobs(struct o2g_engine *engine)
{
	struct o2g_copy *jobs = engine->jobs;

	lockdep_assert_held(&engine->lock);
	engine->jobs = NULL;
	engine->last = &engine->jobs;
	return jobs;
}

static void do_jobs(struct o2g_engine *engine, struct o2g_copy *jobs, bool own)
{
	int rc = 0;

	if (!jobs)
		return;
	if (!own)
		rc = o2g_program_enter(engine);
	o2g_program_copy(engine, jobs, rc);
	if (!own && !rc)
		o2g_program_leave(engine);
}

/* Consumes a batch of submissions, with the lock held. If even a sleeping
 * allocation has failed, submissions that need memory fail. */
static int consume_batch(struct o2g_engine *engine)
{
	int rc;

	lockdep_assert_held(&engine->lock);
	o2g_core_wait_memory(engine->core, !engine->poor);
	rc = o2g_core_consume(engine->core);
	o2g_core_wait_memory(engine->core, 1);
	engine->broken |= rc == -EPROTO;
	return rc;
}

/*
 * One turn: allocates requested memory, consumes a batch of submissions, and
 * does the work that they cause. The program itself does it if there is `mine`,
 * else a worker. Returns a positive value if there is more to do. If there is
 * no memory, a worker tries again later, because links may be waiting for it.
 */
static int run_turn(struct o2g_engine *engine, struct list_head *mine)
{
	const int filled = o2g_memory_fill(engine);
	struct o2g_copy *jobs;
	bool wake = false, more;
	int rc, reads;

	o2g_area_shrink(engine);
	o2g_engine_lock(engine);
	rc = engine_refusal(engine);
	if (rc) {
		unlock_engine(engine, false);
		return rc;
	}
	engine->poor = filled < 0;
	rc = consume_batch(engine);
	more = settle_engine(engine, mine, &wake);
	reads = srcu_read_lock(&engine->access);
	jobs = take_jobs(engine);
	if (engine->poor)
		mod_delayed_work(engine->workers, &engine->turn_work,
				 MEMORY_DELAY);
	unlock_engine(engine, wake);
	if (mine)
		o2g_tx_write(mine);
	do_jobs(engine, jobs, mine);
	srcu_read_unlock(&engine->access, reads);
	return rc < 0 ? rc : more;
}

/* A faulty program is not served any more, and its connections end. */
static void judge_result(struct o2g_engine *engine, int rc)
{
	if (rc == -EPROTO)
		queue_work(engine->workers, &engine->end_work);
}

static void turn_work(struct work_struct *work)
{
	struct o2g_engine *engine =
		container_of(work, struct o2g_engine, turn_work.work);
	int rc;

	do {
		rc = run_turn(engine, NULL);
		cond_resched();
	} while (rc > 0);
	judge_result(engine, rc);
}

int o2g_engine_kick(struct o2g_engine *engine)
{
	LIST_HEAD(mine);
	int rc = down_read_killable(&engine->use);

	if (rc)
		return rc;
	do {
		rc = run_turn(engine, &mine);
		cond_resched();
	} while (rc > 0 && !signal_pending(current));
	judge_result(engine, rc);
	if (rc > 0) { /* a worker continues */
		o2g_engine_lock(engine);
		o2g_engine_unlock(engine, NULL);
	}
	up_read(&engine->use);
	return min(rc, 0);
}

/* ---- calls ---- */

static int lock_if_open(struct o2g_engine *engine)
{
	int rc;

	o2g_engine_lock(engine);
	rc = engine_refusal(engine);
	if (rc)
		unlock_engine(engine, false);
	return rc;
}

int o2g_engine_peer(struct o2g_engine *engine, u32 peer, bool self)
{
	u32 tries = 0;
	int rc;

	do {
		rc = lock_if_open(engine);
		if (rc)
			return rc;
		rc = o2g_core_peer(engine->core, peer, self);
		o2g_engine_unlock(engine, NULL);
	} while (rc == -ENOMEM && o2g_memory_again(engine, &tries));
	return rc;
}

int o2g_engine_lost(struct o2g_engine *engine, u32 peer, int error)
{
	int rc = lock_if_open(engine);

	if (rc)
		return rc;
	o2g_core_lost(engine->core, peer, error);
	o2g_engine_unlock(engine, NULL);
	return 0;
}

/* ---- regions ---- */

int o2g_engine_region_add(struct o2g_engine *engine,
			  const struct o2g_region_options *options)
{
	u32 tries = 0;
	int rc;

	do {
		rc = lock_if_open(engine);
		if (rc)
			return rc;
		rc = o2g_region_add(engine->core, options);
		o2g_engine_unlock(engine, NULL);
	} while (rc == -ENOMEM && o2g_memory_again(engine, &tries));
	return rc;
}

/* Waits for all contexts that may access the program's memory now. Freed by the
 * waiter or at the end of the grace period, whichever is later. */
struct quiet {
	struct rcu_head rcu;
	struct kref ref;
	struct completion done;
};

static void free_quiet(struct kref *ref)
{
	kfree(container_of(ref, struct quiet, ref));
}

static void access_over(struct rcu_head *rcu)
{
	struct quiet *quiet = container_of(rcu, struct quiet, rcu);

	complete(&quiet->done);
	kref_put(&quiet->ref, free_quiet);
}

/* Such a context may block in a page fault for as long as the program likes, so
 * the caller can be killed. */
static int wait_for_access(struct o2g_engine *engine, struct quiet *quiet)
{
	int rc;

	might_sleep();
	kref_init(&quiet->ref);
	kref_get(&quiet->ref);
	init_completion(&quiet->done);
	call_srcu(&engine->access, &quiet->rcu, access_over);
	rc = wait_for_completion_killable(&quiet->done);
	kref_put(&quiet->ref, free_quiet);
	return rc ? -EINTR : 0;
}

/* Deferred copies of messages to oneself may still refer to the memory: either
 * they are done here, or this waits for the context that does them. */
static int quiesce_access(struct o2g_engine *engine, struct quiet *quiet)
{
	struct o2g_copy *jobs = NULL;

	if (down_read_killable(&engine->use)) {
		kfree(quiet);
		return -EINTR;
	}
	o2g_engine_lock(engine);
	if (!engine->closed)
		jobs = take_jobs(engine);
	o2g_engine_unlock(engine, NULL);
	do_jobs(engine, jobs, true);
	up_read(&engine->use);
	return wait_for_access(engine, quiet);
}

int o2g_engine_region_remove(struct o2g_engine *engine, u64 key)
{
	struct quiet *quiet = kmalloc(sizeof(*quiet), GFP_KERNEL_ACCOUNT);
	int rc = -ENOMEM;

	if (quiet)
		rc = lock_if_open(engine);
	if (!rc) {
		rc = o2g_region_remove(engine->core, key);
		o2g_engine_unlock(engine, NULL);
	}
	if (!rc)
		return quiesce_access(engine, quiet);
	kfree(quiet);
	return rc;
}

static void set_doorbell(struct o2g_engine *engine, bool rung)
{
	spin_lock_bh(&engine->lock);
	engine->rung = rung;
	spin_unlock_bh(&engine->lock);
	if (rung)
		wake_up_poll(&engine->wait, EPOLLIN | EPOLLRDNORM);
}

void o2g_engine_wake(struct o2g_engine *engine)
{
	set_doorbell(engine, true);
}

void o2g_engine_calm(struct o2g_engine *engine)
{
	set_doorbell(engine, false);
}

int o2g_engine_sleep(struct o2g_engine *engine, u64 us)
{
	const ktime_t limit =
		ns_to_ktime(min(us, SLEEP_MAX_US) * NSEC_PER_USEC);
	int rc;

	spin_lock_bh(&engine->lock);
	engine->counts.sleeps++;
	spin_unlock_bh(&engine->lock);
	rc = wait_event_interruptible_hrtimeout(
		engine->wait,
		READ_ONCE(engine->rung) || READ_ONCE(engine->closed), limit);
	if (READ_ONCE(engine->closed))
		return engine_refusal(engine);
	if (rc == -ERESTARTSYS)
		return -EINTR;
	return READ_ONCE(engine->rung);
}

/* Whether all links have sent BYE and FIN and the peers have acknowledged them:
 * then nothing that a peer still sends can make this kernel reset a stream. */
static bool links_finished(struct o2g_engine *engine)
{
	struct o2g_link *link;
	bool all = true;

	spin_lock_bh(&engine->lock);
	list_for_each_entry(link, &engine->links, here) {
		all = o2g_link_finished(link);
		if (!all)
			break;
	}
	all |= engine->closed;
	spin_unlock_bh(&engine->lock);
	return all;
}

/* The caller holds `control`, so that links remain when the lock is released in
 * between. */
static int say_bye(struct o2g_engine *engine)
{
	struct o2g_link *link;
	int n = 0, rc = lock_if_open(engine);

	lockdep_assert_held(&engine->control);
	if (rc)
		return rc;
	list_for_each_entry(link, &engine->links, here) {
		o2g_link_bye(link);
		if (++n % BYES_MAX)
			continue;
		o2g_engine_unlock(engine, NULL);
		cond_resched();
		o2g_engine_lock(engine);
	}
	o2g_engine_unlock(engine, NULL);
	return 0;
}

int o2g_engine_finish(struct o2g_engine *engine, u32 ms)
{
	int rc = o2g_engine_kick(engine);
	long left;

	if (!rc)
		rc = mutex_lock_interruptible(&engine->control);
	if (rc)
		return rc;
	rc = say_bye(engine);
	mutex_unlock(&engine->control);
	if (rc)
		return rc;
	left = wait_event_interruptible_timeout(
		engine->wait, links_finished(engine), msecs_to_jiffies(ms) + 1);
	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIMEDOUT;
}

int o2g_engine_counts(struct o2g_engine *engine, struct o2g_device_counts *c)
{
	struct o2g_counts core;
	int rc = lock_if_open(engine);

	if (rc)
		return rc;
	o2g_core_counts(engine->core, &core);
	*c = engine->counts;
	o2g_engine_unlock(engine, NULL);
	c->sent = core.sent;
	c->sent_bytes = core.sent_bytes;
	c->received = core.received;
	c->received_bytes = core.received_bytes;
	c->expected = core.expected;
	c->unexpected = core.unexpected;
	c->requested = core.requested;
	c->waited = core.waited;
	c->self = core.self;
	c->frames_in = core.frames_in;
	c->frames_out = core.frames_out;
	c->kicks = core.kicks;
	c->unmatched = core.unmatched;
	c->unmatched_bytes = core.unmatched_bytes;
	c->posted = core.posted;
	c->slab_pages = atomic64_read(&engine->pages.present);
	return 0;
}

/* ---- the end ---- */

void o2g_engine_close(struct o2g_engine *engine)
{
	struct o2g_core *core;

	might_sleep();
	mutex_lock(&engine->control);
	spin_lock_bh(&engine->lock);
	engine->closed = true;
	spin_unlock_bh(&engine->lock);
	wake_up_poll(&engine->wait, EPOLLIN | EPOLLHUP);
	while (!list_empty(&engine->links))
		o2g_link_detach(list_first_entry(&engine->links,
						 struct o2g_link, here));
	mutex_unlock(&engine->control);
	cancel_work_sync(&engine->reap_work);
	cancel_delayed_work_sync(&engine->turn_work);
	down_write(&engine->use);
	spin_lock_bh(&engine->lock);
	core = engine->core;
	engine->core = NULL;
	take_jobs(engine); /* freed with the core */
	spin_unlock_bh(&engine->lock);
	if (core)
		o2g_core_free(core);
	up_write(&engine->use);
}

static void end_work(struct work_struct *work)
{
	o2g_engine_close(container_of(work, struct o2g_engine, end_work));
}

static void free_engine(struct kref *ref)
{
	struct o2g_engine *engine = container_of(ref, struct o2g_engine, ref);

	if (engine->workers)
		destroy_workqueue(engine->workers);
	if (engine->access_made) {
		srcu_barrier(&engine->access);
		cleanup_srcu_struct(&engine->access);
	}
	o2g_area_free(engine);
	o2g_memory_close(engine);
	put_pid(engine->owner);
	mmdrop(engine->mm);
	kfree(engine);
	atomic64_dec(&o2g_totals.engines);
}

void o2g_engine_get(struct o2g_engine *engine)
{
	kref_get(&engine->ref);
}

void o2g_engine_put(struct o2g_engine *engine)
{
	kref_put(&engine->ref, free_engine);
}

/* ---- creation ---- */

static int check_open(const struct o2g_device_open *o)
{
	if (o->revision != O2G_DEVICE_REVISION)
		return -EPROTO;
	if (!o->postings || o->postings > POSTINGS_MAX || !o->peers ||
	    o->peers > PEERS_MAX || !o->slab_message ||
	    memchr_inv(o->zero, 0, sizeof(o->zero)))
		return -EINVAL;
	return 0;
}

static void host_completed(void *ctx)
{
	/* setting `closed` needs the core */
}

static int make_core(struct o2g_engine *engine, const struct o2g_device_open *o)
{
	const struct o2g_host host = {.ctx = engine,
				      .alloc = o2g_memory_alloc,
				      .free = o2g_memory_free,
				      .want_tx = o2g_link_want,
				      .copy = o2g_host_copy,
				      .completed = host_completed,
				      .spare = o2g_memory_spare};
	struct o2g_limits limits = {.postings = o->postings,
				    .peers = o->peers,
				    .unexpected = o->unexpected,
				    .write_off = o->write_off,
				    .invited = o->invited,
				    .slab_message = o->slab_message,
				    .batch = SUBMISSIONS_MAX,
				    .access = 1};
	int rc;

	get_random_bytes(limits.hash_key, sizeof(limits.hash_key));
	rc = o2g_core_make(&engine->core, &host, &limits, engine->pages.rings);
	if (rc)
		return rc;
	o2g_core_wait_memory(engine->core, 1);
	engine->memory.sleep = false;
	return 0;
}

static void init_engine(struct o2g_engine *engine)
{
	atomic64_inc(&o2g_totals.engines);
	kref_init(&engine->ref);
	mutex_init(&engine->control);
	init_rwsem(&engine->use);
	spin_lock_init(&engine->lock);
	INIT_LIST_HEAD(&engine->links);
	INIT_LIST_HEAD(&engine->tx);
	INIT_LIST_HEAD(&engine->blocked);
	engine->last = &engine->jobs;
	INIT_DELAYED_WORK(&engine->turn_work, turn_work);
	INIT_WORK(&engine->reap_work, o2g_link_reap);
	INIT_WORK(&engine->end_work, end_work);
	init_waitqueue_head(&engine->wait);
	xa_init_flags(&engine->pages.slab, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	mmgrab(current->mm);
	engine->mm = current->mm;
	engine->owner = get_pid(task_tgid(current));
}

struct o2g_engine *o2g_engine_make(const struct o2g_device_open *o, int *error)
{
	struct o2g_engine *engine;
	int rc = check_open(o);

	*error = rc;
	if (rc)
		return NULL;
	engine = kzalloc(sizeof(*engine), GFP_KERNEL_ACCOUNT);
	*error = -ENOMEM;
	if (!engine)
		return NULL;
	init_engine(engine);
	engine->link_max = o->peers;
	rc = o2g_memory_open(engine);
	if (!rc) {
		rc = init_srcu_struct(&engine->access);
		engine->access_made = !rc;
	}
	if (!rc)
		rc = o2g_area_make(engine, o);
	if (!rc)
		rc = make_core(engine, o);
	if (!rc) {
		engine->workers =
			alloc_workqueue("o2g", WQ_UNBOUND, WORKERS_MAX);
		rc = engine->workers ? 0 : -ENOMEM;
	}
	*error = rc;
	if (!rc)
		return engine;
	o2g_engine_close(engine);
	o2g_engine_put(engine);
	return NULL;
}
