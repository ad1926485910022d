// SPDX-License-Identifier: MIT
/*
 * Owns the synchronization between waiting threads and objects that change;
 * wait.h has the protocol. No lock: only thread t writes fds->waiting[t].
 */
#include "wait.h"
#include "base/errno.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"

_Static_assert(ABI_WAITER_WORDS * 64 >= ABI_THREADS_MAX,
	       "every thread needs a bit in struct abi_event");

void abi_wait_begin(struct abi_call *c, u32 parked)
{
	__atomic_store_n(&c->p->fds.waiting[c->t->index].parked, parked,
			 __ATOMIC_SEQ_CST);
}

void abi_event_join(struct abi_call *c, struct abi_event *e)
{
	u32 t = c->t->index;

	__atomic_fetch_or(&e->waiters[t / 64], 1ull << t % 64,
			  __ATOMIC_SEQ_CST);
}

void abi_event_leave(struct abi_call *c, struct abi_event *e)
{
	u32 t = c->t->index;

	__atomic_fetch_and(&e->waiters[t / 64], ~(1ull << t % 64),
			   __ATOMIC_SEQ_CST);
}

s64 abi_wait_sleep(struct abi_call *c, struct abi_poll *list, u32 count,
		   u64 deadline_ns)
{
	const struct abi_host *host = c->p->host;
	s64 result;

	if (__atomic_load_n(&c->p->fds.waiting[c->t->index].parked,
			    __ATOMIC_RELAXED))
		return abi_thread_park(c->p, c->t, deadline_ns, 1);
	if (abi_pending(c->p, c->t->index))
		return -LINUX_EINTR;
	abi_thread_asleep(c->t, 1);
	result = host->io_wait(list, count, deadline_ns, c->t->index);
	abi_thread_asleep(c->t, 0);
	if (result > 0)
		return 0;
	if (result == -LINUX_EINTR)
		return abi_pending(c->p, c->t->index) ? -LINUX_EINTR : 0;
	return result ? result : -LINUX_ETIMEDOUT;
}

static void wake_thread(struct abi_proc *p, u32 t)
{
	struct abi_thread *thread = abi_thread_get(p, t);

	if (!thread)
		return;
	if (__atomic_load_n(&p->fds.waiting[t].parked, __ATOMIC_SEQ_CST))
		abi_thread_unpark(p, thread);
	else
		p->host->thread_kick(t);
}

void abi_event_signal(struct abi_proc *p, struct abi_event *e, u32 edges)
{
	u64 bits;
	u32 i, bit;

	if (edges & ABI_EDGE_IN)
		__atomic_add_fetch(&e->edge_in, 1, __ATOMIC_SEQ_CST);
	if (edges & ABI_EDGE_OUT)
		__atomic_add_fetch(&e->edge_out, 1, __ATOMIC_SEQ_CST);
	/* Orders the change before the read of the bits. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < ABI_WAITER_WORDS; i++) {
		bits = __atomic_load_n(&e->waiters[i], __ATOMIC_RELAXED);
		for (; bits; bits &= bits - 1) {
			bit = (u32)__builtin_ctzll(bits);
			wake_thread(p, i * 64 + bit);
		}
	}
}

void abi_event_rearm(struct abi_proc *p, struct abi_event *e, u32 edges)
{
	u32 spent = __atomic_load_n(&e->spent, __ATOMIC_SEQ_CST);

	if (!(spent & edges))
		return;
	__atomic_fetch_and(&e->spent, ~edges, __ATOMIC_SEQ_CST);
	abi_event_signal(p, e, spent & edges);
}

s64 abi_wait_handle(struct abi_call *c, s32 handle, u32 events, u64 deadline_ns)
{
	struct abi_poll one = {handle, (u16)events, 0};
	s64 result;

	abi_wait_begin(c, 0);
	do
		result = abi_wait_sleep(c, &one, 1, deadline_ns);
	while (!result && !one.revents);
	return result;
}

u64 abi_wait_deadline(struct abi_proc *p, u64 ns)
{
	u64 now;

	if (!ns)
		return ABI_FOREVER;
	now = (u64)p->host->clock(ABI_CLOCK_MONOTONIC);
	return ns < ABI_FOREVER - now ? now + ns : ABI_FOREVER;
}
