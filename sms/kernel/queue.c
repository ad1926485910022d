// SPDX-License-Identifier: MIT
/*
 * The queues of cores: runnable threads that wait for a core. A thread is
 * placed where it runs soonest; an idle core takes a thread from any queue.
 * Callers hold sms_thread_lock, except of sms_queue_ready().
 */
#include "abi/include/thread_state.h"
#include "kernel.h"

static u32 ready; /* total of all queues; atomic */

u32 sms_queue_ready(void)
{
	return __atomic_load_n(&ready, __ATOMIC_SEQ_CST);
}

void sms_queue_add(struct core *c, struct task *t)
{
	sms_spin_assert(&sms_thread_lock);
	t->state = TASK_READY;
	t->next = NO_THREAD;
	t->core = c->number;
	if (c->queued)
		sms_task_at(c->last)->next = t->thread;
	else
		c->first = t->thread;
	c->last = t->thread;
	__atomic_add_fetch(&c->queued, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
}

/* `before`: its predecessor, or NO_THREAD if it is the first. */
static void unlink_task(struct core *c, u32 before, struct task *t)
{
	sms_spin_assert(&sms_thread_lock);
	if (before == NO_THREAD)
		c->first = t->next;
	else
		sms_task_at(before)->next = t->next;
	if (c->last == t->thread)
		c->last = before;
	__atomic_sub_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_sub_fetch(&c->queued, 1, __ATOMIC_SEQ_CST))
		__atomic_store_n(&c->slot->slice, 0, __ATOMIC_SEQ_CST);
}

/* The first thread in c's queue that may run on core `to`, or NULL. */
struct task *sms_queue_take(struct core *c, const struct core *to)
{
	u32 at = c->first, before = NO_THREAD, left = c->queued;
	struct task *t;

	sms_spin_assert(&sms_thread_lock);
	for (; left; left--, before = at, at = t->next) {
		t = sms_task_at(at);
		if (!sms_task_fits(t, to->number))
			continue;
		unlink_task(c, before, t);
		return t;
	}
	return 0;
}

void sms_queue_remove(struct task *t)
{
	struct core *c = sms_core_at(t->core);
	u32 at = c->first, before = NO_THREAD;

	sms_spin_assert(&sms_thread_lock);
	for (; at != t->thread; before = at, at = sms_task_at(at)->next)
		;
	unlink_task(c, before, t);
}

/* Takes a thread for this core, from its own queue or another. */
struct task *sms_queue_pick(struct core *c)
{
	struct task *t = sms_queue_take(c, c);
	u32 i;

	sms_spin_assert(&sms_thread_lock);
	for (i = 0; !t && i < sms_partition->cores && ready; i++)
		t = sms_queue_take(sms_core_at(i), c);
	return t;
}

/* Requests time slices: the proxy's timer interrupts this core until its queue
 * is empty. */
void sms_queue_slice(struct core *c)
{
	sms_spin_assert(&sms_thread_lock);
	if (__atomic_exchange_n(&c->slot->slice, 1, __ATOMIC_SEQ_CST) != 1)
		sms_cpu_doorbell();
}

/* Whether this core will soon check its queue: abi releases a thread shortly
 * before the thread leaves its core. */
static int is_loose(const struct core *c)
{
	u32 state;

	if (c->state != CORE_BUSY ||
	    __atomic_load_n(&c->loose, __ATOMIC_SEQ_CST))
		return 1;
	state = __atomic_load_n(&abi_thread_get(sms_proc, c->thread)->state,
				__ATOMIC_ACQUIRE);
	return state != ABI_THREAD_LIVE && state != ABI_THREAD_STARTING;
}

/* How unsuitable a core is for a thread: by the length of its queue; of equal
 * ones the thread's last core is best. */
static u32 core_burden(const struct core *c, const struct task *t)
{
	u32 load = c->queued * 4 + (c->state == CORE_IDLE ? 0
				    : is_loose(c)	  ? 1
							  : 2);

	return load * 2 + (c->number != t->core);
}

static struct core *choose_core(const struct task *t)
{
	struct core *c, *best = 0;
	u32 i;

	for (i = 0; i < sms_partition->cores; i++) {
		c = sms_core_at(i);
		if (sms_task_fits(t, i) &&
		    (!best || core_burden(c, t) < core_burden(best, t)))
			best = c;
	}
	return best;
}

void sms_queue_place(struct task *t)
{
	struct core *c = choose_core(t);

	sms_spin_assert(&sms_thread_lock);
	sms_queue_add(c, t);
	if (!is_loose(c))
		sms_queue_slice(c);
	else if (c != sms_core() && (c->state == CORE_IDLE || sms_cpu_sleeps()))
		sms_cpu_nmi(c, MAIL_NMI_START);
}
