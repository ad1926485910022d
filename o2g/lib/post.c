// SPDX-License-Identifier: MIT
/*
 * Submitting operations. A receive is only written to the ring, unless the
 * engine asked for a kick. Everything else is done at once, in the caller's
 * thread.
 */
#include "endpoint.h"
#include "error.h"
#include "trace.h"

#include <o2g/core/atomic.h>
#include <o2g/core/ring.h>

#include <errno.h>
#include <string.h>

static int error_again(const char *what)
{
	return o2g_error_set(-EAGAIN,
			     "%s: read events with o2g_poll(), then try again",
			     what);
}

/* The caller holds `submit`. */
static int submit_locked(struct o2g *o2g, const struct o2g_sqe *sqe)
{
	o2g_trace_begin(o2g, sqe);
	if (o2g_ring_submit(o2g->area, sqe))
		return 0;
	o2g->ops->kick(o2g->engine); /* consumes what lies there */
	if (o2g_ring_submit(o2g->area, sqe))
		return 0;
	o2g_trace_undo(o2g, sqe);
	return error_again("the submission ring is full");
}

static int kick_engine(struct o2g *o2g)
{
	int r = o2g->ops->kick(o2g->engine);

	return r ? o2g_error_set(r, "the engine '%s' failed: %s",
				 o2g->ops->name, strerror(-r))
		 : 0;
}

/* An operation that ends with an event counts as in flight until the event is
 * taken. */
static int take_place(struct o2g *o2g)
{
	if (__atomic_add_fetch(&o2g->flying, 1, __ATOMIC_RELAXED) <=
	    o2g->settings.operations)
		return 0;
	__atomic_sub_fetch(&o2g->flying, 1, __ATOMIC_RELAXED);
	return error_again(
		"too many operations in flight (SKEP_O2G_OPERATIONS)");
}

static void give_place(struct o2g *o2g)
{
	__atomic_sub_fetch(&o2g->flying, 1, __ATOMIC_RELAXED);
}

/* Submits an operation that ends with an event. */
static int submit_operation(struct o2g *o2g, const struct o2g_sqe *sqe,
			    int lazy)
{
	int r = take_place(o2g), kicks;

	if (r)
		return r;
	pthread_mutex_lock(&o2g->submit);
	r = submit_locked(o2g, sqe);
	kicks = r == 0 && (o2g_ring_kicks(o2g->area) || !lazy);
	pthread_mutex_unlock(&o2g->submit);
	if (r)
		give_place(o2g);
	return kicks ? kick_engine(o2g) : r;
}

static u64 pointer_number(const void *pointer)
{
	return (u64)(size_t)pointer;
}

static struct o2g_sqe submission_entry(u8 op, const struct o2g_match *m,
				       void *cookie)
{
	struct o2g_sqe sqe = {.op = op, .cookie = pointer_number(cookie)};

	if (m) {
		sqe.peer = m->peer;
		sqe.context = m->context;
		sqe.tag = m->tag;
		sqe.ignore = m->ignore;
	}
	return sqe;
}

/* ---- sending ---- */

/* Submits a send whose buffer is copied, or that has no event. */
static int send_marked(struct o2g *o2g, struct o2g_sqe *sqe, const void *buffer,
		       size_t length, unsigned options)
{
	void *mark;
	int r;

	if (options & O2G_COPY && length > o2g_copy_max(o2g))
		return o2g_error_set(-EMSGSIZE,
				     "%zu bytes are too many for O2G_COPY: "
				     "o2g_copy_max() is %zu",
				     length, o2g_copy_max(o2g));
	r = take_place(o2g);
	if (r)
		return r;
	pthread_mutex_lock(&o2g->submit);
	mark = o2g_bounce_take(o2g, buffer, length, (void *)(size_t)sqe->cookie,
			       options);
	sqe->cookie = pointer_number(mark);
	if (options & O2G_COPY)
		sqe->addr = pointer_number(mark);
	r = mark ? submit_locked(o2g, sqe)
		 : error_again("too many copied or quiet sends in flight");
	if (r && mark)
		o2g_bounce_return(o2g, mark);
	pthread_mutex_unlock(&o2g->submit);
	if (r)
		give_place(o2g);
	return r ? r : kick_engine(o2g);
}

int o2g_send(struct o2g *o2g, const struct o2g_match *to, const void *buffer,
	     size_t length, uint64_t data, unsigned options, void *cookie)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_SEND, to, cookie);
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	if (length > O2G_LENGTH_MAX || to->peer == O2G_ANY)
		return o2g_error_set(-EINVAL,
				     length > O2G_LENGTH_MAX
					     ? "a message has at most 2^40 "
					       "bytes"
					     : "a send names its peer, not "
					       "O2G_ANY");
	o2g_peer_need(o2g, to->peer);
	sqe.ignore = 0;
	sqe.addr = pointer_number(buffer);
	sqe.length = length;
	if (options & O2G_WITH_DATA) {
		sqe.flags |= O2G_SQE_DATA;
		sqe.data = data;
	}
	return options & (O2G_COPY | O2G_QUIET)
		       ? send_marked(o2g, &sqe, buffer, length, options)
		       : submit_operation(o2g, &sqe, 0);
}

/* ---- remote memory access ---- */

int o2g_accesses(const struct o2g *o2g)
{
	return o2g->ops->region_add != 0;
}

static int no_access(const struct o2g *o2g)
{
	return o2g_error_set(-EOPNOTSUPP,
			     "the engine '%s' has no remote memory access yet: "
			     "use SKEP_O2G_ENGINE=user on all hosts of the job",
			     o2g->ops->name);
}

int o2g_register_memory(struct o2g *o2g, const struct o2g_memory *memory)
{
	const struct o2g_region_options options = {
		.key = memory->key,
		.address = pointer_number(memory->start),
		.length = memory->length,
		.first = memory->first,
		.cookie = pointer_number(memory->cookie),
		.rights = memory->rights};
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	if (!o2g_accesses(o2g))
		return no_access(o2g);
	if (memory->rights &
	    ~(unsigned)(O2G_MAY_READ | O2G_MAY_WRITE | O2G_TELL))
		r = -EINVAL;
	else
		r = o2g->ops->region_add(o2g->engine, &options);
	return r ? o2g_error_set(r, "memory can't be registered: %s",
				 strerror(-r))
		 : 0;
}

int o2g_unregister_memory(struct o2g *o2g, uint64_t key)
{
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	return o2g_accesses(o2g) ? o2g->ops->region_remove(o2g->engine, key)
				 : no_access(o2g);
}

static int submit_access(struct o2g *o2g, u8 op, const struct o2g_remote *at,
			 void *cookie, struct o2g_sqe *sqe)
{
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	if (!o2g_accesses(o2g))
		return no_access(o2g);
	if (sqe->length > O2G_LENGTH_MAX || at->peer == O2G_ANY)
		return o2g_error_set(-EINVAL, "an access names its peer and at "
					      "most 2^40 bytes");
	sqe->op = op;
	sqe->peer = at->peer;
	sqe->tag = at->key;
	sqe->ignore = at->place;
	sqe->cookie = pointer_number(cookie);
	o2g_peer_need(o2g, at->peer);
	return 0;
}

int o2g_write(struct o2g *o2g, const struct o2g_remote *to, const void *buffer,
	      size_t length, uint64_t data, unsigned options, void *cookie)
{
	struct o2g_sqe sqe = {.addr = pointer_number(buffer), .length = length};
	int r = submit_access(o2g, O2G_OP_WRITE, to, cookie, &sqe);

	if (r)
		return r;
	if (options & O2G_WITH_DATA) {
		sqe.flags |= O2G_SQE_DATA;
		sqe.data = data;
	}
	return options & (O2G_COPY | O2G_QUIET)
		       ? send_marked(o2g, &sqe, buffer, length, options)
		       : submit_operation(o2g, &sqe, 0);
}

int o2g_read(struct o2g *o2g, const struct o2g_remote *from, void *buffer,
	     size_t length, unsigned options, void *cookie)
{
	struct o2g_sqe sqe = {.addr = pointer_number(buffer), .length = length};
	int r = submit_access(o2g, O2G_OP_READ, from, cookie, &sqe);

	if (r)
		return r;
	return options & O2G_QUIET
		       ? send_marked(o2g, &sqe, buffer, length, O2G_QUIET)
		       : submit_operation(o2g, &sqe, 0);
}

_Static_assert(O2G_CHANGE_MAX == O2G_ATOMIC_BYTES &&
		       (int)O2G_SWAP_BITS == (int)O2G_ATOMIC_MSWAP &&
		       (int)O2G_STORE == (int)O2G_ATOMIC_WRITE &&
		       (int)O2G_DOUBLE == (int)O2G_ATOMIC_F64,
	       "the program's names are those on the wire");

size_t o2g_element_size(unsigned operation, unsigned type)
{
	const u32 what = operation | type << 8;

	if (operation > 0xff || type > 0xff || !o2g_atomic_valid(what, 8))
		return 0;
	return o2g_atomic_size(what);
}

/* Copies the operands, followed by the values to compare with: 0 or -EINVAL. */
static int gather_operands(const struct o2g_change *c, u32 what, size_t length,
			   u8 *body)
{
	if (!o2g_atomic_valid(what, length) ||
	    (o2g_atomic_writes(what) && !c->operand) ||
	    (o2g_atomic_compares(what) && !c->compare) ||
	    (o2g_atomic_fetches(what) && !c->result))
		return o2g_error_set(-EINVAL,
				     "an atomic access has an operation for "
				     "its type of element, its operands, and "
				     "1 to %u bytes of elements",
				     O2G_CHANGE_MAX);
	if (o2g_atomic_writes(what))
		memcpy(body, c->operand, length);
	if (o2g_atomic_compares(what))
		memcpy(body + length, c->compare, length);
	return 0;
}

int o2g_atomic(struct o2g *o2g, const struct o2g_remote *at,
	       const struct o2g_change *c, unsigned options, void *cookie)
{
	const size_t size = o2g_element_size(c->operation, c->type);
	const u32 what = c->operation | c->type << 8 |
			 (c->result ? O2G_ATOMIC_FETCH : 0);
	const size_t length = c->count > O2G_CHANGE_MAX ? 0 : c->count * size;
	struct o2g_sqe sqe = {.length = length,
			      .data = pointer_number(c->result)};
	u8 body[2 * O2G_ATOMIC_BYTES];
	int r = submit_access(o2g, O2G_OP_ATOMIC, at, cookie, &sqe);

	if (!r)
		r = gather_operands(c, what, length, body);
	if (r)
		return r;
	sqe.context = what;
	return send_marked(o2g, &sqe, body, o2g_atomic_body(what, length),
			   O2G_COPY | (options & O2G_QUIET));
}

/* ---- receiving ---- */

int o2g_recv(struct o2g *o2g, const struct o2g_match *from, void *buffer,
	     size_t length, size_t min_left, unsigned options, void *cookie)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_RECV, from, cookie);
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	o2g_peer_expect(o2g, from->peer);
	sqe.addr = pointer_number(buffer);
	sqe.length = length;
	if (options & O2G_MULTI) {
		sqe.flags |= O2G_SQE_MULTI;
		sqe.data = min_left;
	}
	return submit_operation(o2g, &sqe, 1);
}

int o2g_peek(struct o2g *o2g, const struct o2g_match *from, unsigned options,
	     void *cookie)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_PEEK, from, cookie);
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	o2g_peer_expect(o2g, from->peer);
	/* The engine is run here, because a program that probes in a loop
	 * always gets an answer, and so o2g_poll() never finds the ring empty
	 * and runs it. */
	o2g->ops->drive(o2g->engine);
	if (options & O2G_CLAIM)
		sqe.flags |= O2G_SQE_CLAIM;
	if (options & O2G_DISCARD)
		sqe.flags |= O2G_SQE_DISCARD;
	return submit_operation(o2g, &sqe, 0);
}

int o2g_recv_claimed(struct o2g *o2g, uint64_t handle, void *buffer,
		     size_t length, void *cookie)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_RECV, 0, cookie);
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	sqe.flags = O2G_SQE_CLAIMED;
	sqe.peer = O2G_ANY_PEER;
	sqe.data = handle;
	sqe.addr = pointer_number(buffer);
	sqe.length = length;
	return submit_operation(o2g, &sqe, 0);
}

/* Cancel and discard have no event of their own. */
static int submit_order(struct o2g *o2g, const struct o2g_sqe *sqe)
{
	int r = o2g_endpoint_alive(o2g);

	if (r)
		return r;
	pthread_mutex_lock(&o2g->submit);
	r = submit_locked(o2g, sqe);
	pthread_mutex_unlock(&o2g->submit);
	return r ? r : kick_engine(o2g);
}

int o2g_discard_claimed(struct o2g *o2g, uint64_t handle)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_DISCARD, 0, 0);

	sqe.data = handle;
	return submit_order(o2g, &sqe);
}

int o2g_cancel(struct o2g *o2g, void *cookie)
{
	struct o2g_sqe sqe = submission_entry(O2G_OP_CANCEL, 0, cookie);

	return submit_order(o2g, &sqe);
}
