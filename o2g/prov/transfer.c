/* SPDX-License-Identifier: MIT */
/* Sends, receives and peeks, tagged or not: two contexts of libo2g. */
#include <stdlib.h>
#include <string.h>

#include "prov.h"

enum { UNTAGGED, TAGGED }; /* o2g_match.context */

/* Which of libfabric's flags each call may carry; MORE and the levels of
 * completion below delivery are met by every operation. */
#define MEANINGLESS (FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE)
#define KINDS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE)
#define SEND_FLAGS                                                             \
	(KINDS | MEANINGLESS | FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA)
#define RECEIVE_FLAGS                                                          \
	(KINDS | MEANINGLESS | FI_COMPLETION | FI_MULTI_RECV | FI_PEEK |       \
	 FI_CLAIM | FI_DISCARD)

int prov_transfer_iov(struct transfer *transfer, const struct iovec *iov,
		      size_t count)
{
	if (count > 1 || (count && !iov))
		return -FI_EINVAL;
	transfer->buffer = count ? iov->iov_base : NULL;
	transfer->length = count ? iov->iov_len : 0;
	return 0;
}

uint64_t prov_send_flags(struct fid_ep *fid)
{
	return prov_endpoint(fid)->tx.op_flags;
}

uint64_t prov_receive_flags(struct fid_ep *fid)
{
	return prov_endpoint(fid)->rx.op_flags;
}

/* With the lock held. */
static int match_of(struct endpoint *ep, const struct transfer *t, bool any,
		    struct o2g_match *match)
{
	prov_assert_locked(&ep->lock);
	match->peer = O2G_ANY;
	match->context = t->flags & FI_TAGGED ? TAGGED : UNTAGGED;
	match->tag = t->flags & FI_TAGGED ? t->tag : 0;
	match->ignore = t->flags & FI_TAGGED ? t->ignore : 0;
	if (any)
		return 0;
	if (t->address < ep->peers)
		match->peer = ep->peer[t->address];
	return match->peer == O2G_ANY ? -FI_EINVAL : 0;
}

bool prov_reports(const struct side *side, uint64_t flags)
{
	return !side->selective || (flags & FI_COMPLETION);
}

/* Allocates an operation and finds its peer. */
int prov_begin(struct endpoint *ep, const struct transfer *t, bool any,
	       struct o2g_match *to, struct operation **out)
{
	struct operation *op = NULL;
	int error;

	if (!atomic_load_explicit(&ep->enabled, memory_order_acquire))
		return -FI_EOPBADSTATE;
	if (prov_inherited(ep->domain))
		return -FI_EBADF;
	prov_lock(&ep->lock);
	error = match_of(ep, t, any, to);
	if (!error) {
		op = prov_operation_take(&ep->operations);
		error = op ? 0 : -FI_ENOMEM;
	}
	if (op) {
		op->context = t->context;
		op->flags = t->flags & KINDS;
	}
	prov_unlock(&ep->lock);
	*out = op;
	return error;
}

/* A program that only retries must make progress: reading events frees the
 * operations that have ended. */
int prov_again(struct endpoint *ep, int error)
{
	if (error == -FI_EAGAIN)
		(void)prov_endpoint_progress(ep);
	return error;
}

/* The operation never started. */
int prov_fail(struct endpoint *ep, struct operation *op, int error)
{
	prov_lock(&ep->lock);
	prov_operation_give(&ep->operations, op);
	prov_unlock(&ep->lock);
	return prov_again(ep, error);
}

/* The buffer may be reused at once: libo2g or the operation has a copy. */
int prov_copy(struct endpoint *ep, const struct transfer *t,
	      struct operation *op, const void **buffer, unsigned *options)
{
	if (t->length > PROV_INJECT)
		return -FI_EINVAL;
	if (t->length <= ep->copy_max) {
		*options |= O2G_COPY;
		return 0;
	}
	op->copy = malloc(t->length);
	if (!op->copy)
		return -FI_ENOMEM;
	*buffer = memcpy(op->copy, t->buffer, t->length);
	return 0;
}

static ssize_t send_operation(struct endpoint *ep, const struct transfer *t,
			      bool report)
{
	const void *buffer = t->buffer;
	struct operation *op;
	struct o2g_match to;
	unsigned options = 0;
	int error;

	if ((t->flags & ~SEND_FLAGS) || (t->length && !buffer))
		return -FI_EINVAL;
	error = prov_begin(ep, t, false, &to, &op);
	if (error)
		return error;
	op->flags |= FI_SEND;
	op->report = report;
	op->counted = true;
	if (t->flags & FI_REMOTE_CQ_DATA)
		options |= O2G_WITH_DATA;
	if (t->flags & FI_INJECT)
		error = prov_copy(ep, t, op, &buffer, &options);
	if (!error)
		error = o2g_send(ep->o2g, &to, buffer, t->length, t->data,
				 options, op);
	return error < 0 ? prov_fail(ep, op, error) : 0;
}

ssize_t prov_send(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);

	return send_operation(ep, t, prov_reports(&ep->tx, t->flags));
}

int prov_aim(struct endpoint *ep, const struct transfer *t,
	     struct o2g_match *to)
{
	int error;

	if (!atomic_load_explicit(&ep->enabled, memory_order_acquire))
		return -FI_EOPBADSTATE;
	if (prov_inherited(ep->domain))
		return -FI_EBADF;
	prov_lock(&ep->lock);
	error = match_of(ep, t, false, to);
	prov_unlock(&ep->lock);
	return error;
}

/* Allocates an operation only if something waits for its end. */
ssize_t prov_inject(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);
	unsigned options = O2G_COPY | O2G_QUIET;
	struct o2g_match to;
	int error;

	if (ep->counter[PROV_SENDS] || t->length > ep->copy_max)
		return send_operation(ep, t, false);
	if (t->length > PROV_INJECT || (t->length && !t->buffer))
		return -FI_EINVAL;
	if (t->flags & FI_REMOTE_CQ_DATA)
		options |= O2G_WITH_DATA;
	error = prov_aim(ep, t, &to);
	if (!error)
		error = o2g_send(ep->o2g, &to, t->buffer, t->length, t->data,
				 options,
				 t->flags & FI_TAGGED ? &ep->injected_tagged
						      : &ep->injected);
	return error < 0 ? prov_again(ep, error) : 0;
}

static ssize_t peek_message(struct endpoint *ep, const struct o2g_match *from,
			    uint64_t flags, struct operation *op)
{
	unsigned options = 0;

	if (flags & FI_CLAIM)
		options |= O2G_CLAIM;
	if (flags & FI_DISCARD)
		options |= O2G_DISCARD;
	op->claim = flags & FI_CLAIM;
	return o2g_peek(ep->o2g, from, options, op);
}

static ssize_t post_receive(struct endpoint *ep, const struct o2g_match *from,
			    const struct transfer *t, struct operation *op)
{
	const bool multi = t->flags & FI_MULTI_RECV;
	ssize_t error;

	op->receive = true;
	op->counted = true;
	if (multi) {
		op->flags |= FI_MULTI_RECV;
		atomic_fetch_add(&ep->standing, 1);
	}
	error = o2g_recv(ep->o2g, from, (void *)t->buffer, t->length,
			 ep->min_left, multi ? O2G_MULTI : 0, op);
	if (multi && error < 0)
		atomic_fetch_sub(&ep->standing, 1);
	return error;
}

/* The handle that a peek stored in the program's context; it is valid once. */
static int claimed_handle(struct endpoint *ep, struct fi_context *keep,
			  uint64_t *handle)
{
	if (!keep || keep->internal[1] != ep)
		return -FI_EINVAL;
	*handle = (uintptr_t)keep->internal[0];
	return 0;
}

static void clear_claim(struct fi_context *keep)
{
	keep->internal[1] = NULL;
}

/* There is no later event of libo2g, so the completion needs space first. As
 * for events, half of the queue is left for threads that check at the same
 * time. */
static bool side_has_room(const struct side *side)
{
	return !prov_queue_half_full(side->queue);
}

static ssize_t discard_message(struct endpoint *ep, const struct transfer *t)
{
	struct completion c = {.from = FI_ADDR_NOTAVAIL};
	bool report = ep->rx.queue && prov_reports(&ep->rx, t->flags);
	uint64_t handle;
	int error = claimed_handle(ep, t->context, &handle);

	if (!error && report && !side_has_room(&ep->rx))
		error = -FI_EAGAIN;
	if (!error)
		error = o2g_discard_claimed(ep->o2g, handle);
	if (error < 0)
		return error;
	clear_claim(t->context);
	c.entry.op_context = t->context;
	c.entry.flags = FI_RECV | (t->flags & KINDS);
	if (report)
		(void)prov_queue_put(ep->rx.queue, &c);
	return 0;
}

static ssize_t receive_claimed(struct endpoint *ep, const struct transfer *t,
			       struct operation *op)
{
	uint64_t handle;
	int error = claimed_handle(ep, t->context, &handle);

	op->counted = true;
	if (!error)
		error = o2g_recv_claimed(ep->o2g, handle, (void *)t->buffer,
					 t->length, op);
	if (error >= 0)
		clear_claim(t->context);
	return error;
}

static bool receive_fits(const struct transfer *t)
{
	uint64_t how = t->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD);

	if ((t->flags & ~RECEIVE_FLAGS) || how == FI_DISCARD ||
	    how == (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return false;
	if ((how & FI_CLAIM) && !t->context)
		return false;
	if (t->flags & FI_MULTI_RECV)
		return !how && !(t->flags & FI_TAGGED) && t->length;
	return how || t->buffer || !t->length;
}

ssize_t prov_receive(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);
	bool any = !(ep->caps & FI_DIRECTED_RECV) ||
		   t->address == FI_ADDR_UNSPEC ||
		   (t->flags & (FI_PEEK | FI_CLAIM)) == FI_CLAIM;
	struct operation *op;
	struct o2g_match from;
	ssize_t error;

	if (!receive_fits(t))
		return -FI_EINVAL;
	if ((t->flags & FI_DISCARD) && (t->flags & FI_CLAIM))
		return discard_message(ep, t);
	error = prov_begin(ep, t, any, &from, &op);
	if (error)
		return error;
	op->flags |= FI_RECV;
	op->report = prov_reports(&ep->rx, t->flags);
	if (t->flags & FI_PEEK)
		error = peek_message(ep, &from, t->flags, op);
	else if (t->flags & FI_CLAIM)
		error = receive_claimed(ep, t, op);
	else
		error = post_receive(ep, &from, t, op);
	return error < 0 ? prov_fail(ep, op, (int)error) : 0;
}
