// SPDX-License-Identifier: MIT
/*
 * Reading events. The lock `take` guards the consumer's side of the completion
 * ring; a caller that finds it locked returns without events instead of
 * waiting.
 */
#include "endpoint.h"
#include "error.h"
#include "trace.h"

#include <o2g/core/ring.h>

#include <errno.h>
#include <time.h>

/* Naps of callers that only poll: after this many empty polls in close
 * succession, a nap of a fraction of the wait so far. A few late polls are
 * ignored, because the system may have run another process in between. */
#define NAP_EMPTY 200
#define NAP_CLOSE_NS 20000
#define NAP_LATE 4
#define NAP_FIRST_US 20
#define NAP_PART 16

static u32 event_type(const struct o2g_cqe *cqe)
{
	switch (cqe->op) {
	case O2G_OP_SEND:
		return O2G_SENT;
	case O2G_OP_PEEK:
		return O2G_PEEKED;
	case O2G_OP_WRITE:
		return O2G_PUT;
	case O2G_OP_READ:
		return O2G_GOT;
	case O2G_OP_ATOMIC:
		return O2G_CHANGED;
	case O2G_OP_WRITTEN:
		return O2G_WAS_WRITTEN;
	case O2G_OP_READ_OUT:
		return O2G_WAS_READ;
	}
	return O2G_RECEIVED;
}

/* Whether the operation has no event and does not count as in flight: it was
 * refused. */
static int has_no_event(const struct o2g_cqe *cqe)
{
	return cqe->op == O2G_OP_CANCEL || cqe->op == O2G_OP_DISCARD ||
	       cqe->op == O2G_OP_RELEASE;
}

/* Whether the completion is of a peer's operation, not of one of this
 * endpoint. */
static int event_of_peer(const struct o2g_cqe *cqe)
{
	return cqe->op == O2G_OP_WRITTEN || cqe->op == O2G_OP_READ_OUT;
}

/* Copies a message that the engine left in the slab to the receive's buffer. */
static void *completion_address(const struct o2g_cqe *cqe)
{
	u64 at = cqe->flags & O2G_CQE_SLAB ? cqe->total : cqe->where;

	return cqe->op == O2G_OP_RECV || event_of_peer(cqe) ? (void *)(size_t)at
							    : 0;
}

/* Returns false if the completion is internal and is not reported to the
 * program. */
static int translate_completion(struct o2g *o2g, const struct o2g_cqe *cqe,
				struct o2g_event *event)
{
	u64 cookie = cqe->cookie;
	int copy = 0;

	if (cqe->op == O2G_OP_SEND || cqe->op == O2G_OP_WRITE ||
	    cqe->op == O2G_OP_READ || cqe->op == O2G_OP_ATOMIC)
		copy = o2g_bounce_done(o2g, &cookie);
	*event = (struct o2g_event){
		.cookie = (void *)(size_t)cookie,
		.status = cqe->status,
		.what = event_type(cqe),
		.peer = o2g_peer_known(o2g, cqe->peer),
		.context = cqe->context,
		.tag = cqe->tag,
		.length = cqe->length,
		.total = cqe->flags & O2G_CQE_SLAB ? cqe->length : cqe->total,
		.data = cqe->data,
		.handle = cqe->op == O2G_OP_PEEK ? cqe->where : 0,
		.where = completion_address(cqe),
		.flags = (cqe->flags & O2G_CQE_DATA ? O2G_HAS_DATA : 0) |
			 (cqe->flags & O2G_CQE_MORE ? O2G_STAYS_POSTED : 0)};
	return copy != 2 || cqe->status != 0;
}

static int take_events(struct o2g *o2g, struct o2g_event *event, int most)
{
	struct o2g_cqe cqe;
	int n = 0, taken = 0, kicks;

	if (pthread_mutex_trylock(&o2g->take))
		return 0;
	while (n < most && o2g_body_room(o2g) &&
	       o2g_ring_take(o2g->area, &cqe)) {
		taken = 1;
		if (has_no_event(&cqe))
			continue;
		o2g_trace_end(o2g, &cqe);
		if (cqe.flags & O2G_CQE_SLAB)
			o2g_body_copy(o2g, &cqe);
		n += translate_completion(o2g, &cqe, &event[n]);
		if (!(cqe.flags & O2G_CQE_MORE) && !event_of_peer(&cqe))
			__atomic_sub_fetch(&o2g->flying, 1, __ATOMIC_RELAXED);
	}
	kicks = taken && o2g_ring_roomy(o2g->area);
	kicks |= o2g_body_release(o2g);
	pthread_mutex_unlock(&o2g->take);
	if (kicks)
		o2g->ops->kick(o2g->engine);
	return n;
}

static int queue_empty(struct o2g *o2g)
{
	return __atomic_load_n(&o2g->area->cq.tail, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&o2g->area->cq.head, __ATOMIC_RELAXED);
}

/* One descriptor wakes all threads: a thread that consumes a wake-up for
 * another thread passes it on. */
static void clear_wakeup(struct o2g *o2g)
{
	o2g->ops->calm(o2g->engine);
	if (__atomic_load_n(&o2g->woken, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&o2g->waits, __ATOMIC_SEQ_CST) > 0)
		o2g->ops->wake(o2g->engine);
}

int o2g_poll(struct o2g *o2g, struct o2g_event *event, int most)
{
	int r = o2g_endpoint_alive(o2g), n, moved = 0;

	if (r)
		return r;
	n = queue_empty(o2g) ? 0 : take_events(o2g, event, most);
	if (n == 0) {
		moved = o2g->ops->drive(o2g->engine);
		n = take_events(o2g, event, most);
	} else if (o2g->ops->polled) {
		o2g->ops->polled(o2g->engine);
	}
	if (n == 0 && __atomic_load_n(&o2g->described, __ATOMIC_RELAXED)) {
		clear_wakeup(o2g);
		n = take_events(o2g, event, most);
		if (n == most && !queue_empty(o2g)) /* arrived in between */
			o2g->ops->wake(o2g->engine);
	}
	/* No nap while a long message is arriving. */
	if (n > 0 || moved)
		__atomic_store_n(&o2g->empty, 0, __ATOMIC_RELAXED);
	return n;
}

/* ---- sleeping ---- */

static void request_wakeup(struct o2g *o2g)
{
	__atomic_add_fetch(&o2g->waiters, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&o2g->area->cq.flags, O2G_NEED_WAKE, __ATOMIC_SEQ_CST);
}

/* The flag remains set for other threads that sleep, and for a descriptor. */
static void withdraw_wakeup(struct o2g *o2g)
{
	if (__atomic_sub_fetch(&o2g->waiters, 1, __ATOMIC_SEQ_CST) > 0 ||
	    __atomic_load_n(&o2g->described, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&o2g->area->cq.flags, 0, __ATOMIC_SEQ_CST);
	/* Another thread may have begun to wait in between, and may have read
	 * the ring before a completion that did not see the flag. */
	if (__atomic_load_n(&o2g->waiters, __ATOMIC_SEQ_CST) == 0 &&
	    !__atomic_load_n(&o2g->described, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&o2g->area->cq.flags, O2G_NEED_WAKE, __ATOMIC_SEQ_CST);
	if (!queue_empty(o2g))
		o2g->ops->wake(o2g->engine);
}

static int sleep_once(struct o2g *o2g, s64 ns)
{
	u64 us = ns < 0 || ns > 1000000000 ? 1000000 : (u64)ns / 1000 + 1;

	o2g->ops->calm(o2g->engine);
	if (__atomic_exchange_n(&o2g->woken, 0, __ATOMIC_SEQ_CST))
		return -EINTR;
	return queue_empty(o2g) ? o2g->ops->sleep(o2g->engine, us) : 0;
}

static int wait_events(struct o2g *o2g, struct o2g_event *event, int most,
		       s64 end)
{
	for (;;) {
		s64 left = end < 0 ? -1 : end - o2g_now_ns();
		int n = o2g_poll(o2g, event, most);

		if (n)
			return n;
		if (end >= 0 && left <= 0)
			return 0;
		n = sleep_once(o2g, left);
		if (n)
			return n;
	}
}

int o2g_wait(struct o2g *o2g, struct o2g_event *event, int most, int timeout_ms)
{
	int r = o2g_poll(o2g, event, most);

	if (r || timeout_ms == 0)
		return r;
	request_wakeup(o2g);
	__atomic_add_fetch(&o2g->waits, 1, __ATOMIC_SEQ_CST);
	r = wait_events(o2g, event, most,
			timeout_ms < 0 ? -1
				       : o2g_now_ns() + timeout_ms * 1000000ll);
	__atomic_sub_fetch(&o2g->waits, 1, __ATOMIC_SEQ_CST);
	withdraw_wakeup(o2g);
	/* Wakes other sleepers for the remaining completions. */
	if (__atomic_load_n(&o2g->waiters, __ATOMIC_SEQ_CST) > 0 &&
	    !queue_empty(o2g))
		o2g->ops->wake(o2g->engine);
	return r;
}

int o2g_wake(struct o2g *o2g)
{
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	__atomic_store_n(&o2g->woken, 1, __ATOMIC_SEQ_CST);
	o2g->ops->wake(o2g->engine);
	return 0;
}

/* A wait that is ended by other means during a nap, for example by shared
 * memory, must be prolonged only slightly. */
static u64 nap_us(const struct o2g *o2g, s64 now)
{
	s64 waited = now - __atomic_load_n(&o2g->empty_since, __ATOMIC_RELAXED);
	u64 us = (u64)waited / 1000 / NAP_PART;

	if (us < NAP_FIRST_US)
		us = NAP_FIRST_US;
	return us < o2g->settings.nap_us ? us : o2g->settings.nap_us;
}

void o2g_nap(struct o2g *o2g)
{
	s64 now = o2g_now_ns(), last;
	u32 polls;

	if (o2g_endpoint_alive(o2g))
		return;
	last = __atomic_exchange_n(&o2g->last_poll, now, __ATOMIC_RELAXED);
	if (now - last > NAP_CLOSE_NS) {
		if (__atomic_add_fetch(&o2g->late, 1, __ATOMIC_RELAXED) >=
		    NAP_LATE) /* the caller does other work between polls */
			__atomic_store_n(&o2g->empty, 0, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&o2g->late, 0, __ATOMIC_RELAXED);
	polls = __atomic_add_fetch(&o2g->empty, 1, __ATOMIC_RELAXED);
	if (polls == 1)
		__atomic_store_n(&o2g->empty_since, now, __ATOMIC_RELAXED);
	if (polls < NAP_EMPTY)
		return;
	request_wakeup(o2g);
	clear_wakeup(o2g);
	/* o2g_wake() is for threads that wait, not for naps */
	if (queue_empty(o2g))
		o2g->ops->sleep(o2g->engine, nap_us(o2g, now));
	withdraw_wakeup(o2g);
	/* The nap itself does not count as other work. */
	__atomic_store_n(&o2g->last_poll, o2g_now_ns(), __ATOMIC_RELAXED);
}

int o2g_descriptor(struct o2g *o2g)
{
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	if (!__atomic_exchange_n(&o2g->described, 1, __ATOMIC_SEQ_CST)) {
		request_wakeup(o2g);
		withdraw_wakeup(o2g);
		if (!queue_empty(o2g))
			o2g->ops->wake(o2g->engine);
	}
	return o2g->ops->descriptor(o2g->engine);
}
