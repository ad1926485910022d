/* SPDX-License-Identifier: MIT */
/*
 * Remote memory access. A write completes when it is in the peer's memory, as
 * FI_DELIVERY_COMPLETE requires. Lower levels of completion are treated alike.
 */
#include "prov.h"

#define ANY_LEVEL                                                              \
	(FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                 \
	 FI_DELIVERY_COMPLETE)
#define READ_FLAGS (ANY_LEVEL | FI_RMA | FI_READ | FI_COMPLETION)
#define WRITE_FLAGS                                                            \
	(ANY_LEVEL | FI_RMA | FI_WRITE | FI_COMPLETION | FI_INJECT |           \
	 FI_REMOTE_CQ_DATA)

static struct o2g_remote remote_place(const struct o2g_match *to,
				      const struct transfer *t)
{
	return (struct o2g_remote){
		.peer = to->peer, .key = t->key, .place = t->place};
}

static ssize_t start_write(struct endpoint *ep, const struct transfer *t,
			   bool report)
{
	unsigned options = t->flags & FI_REMOTE_CQ_DATA ? O2G_WITH_DATA : 0;
	const void *buffer = t->buffer;
	struct o2g_remote there;
	struct operation *op;
	struct o2g_match to;
	int error;

	if ((t->flags & ~WRITE_FLAGS) || (t->length && !buffer))
		return -FI_EINVAL;
	error = prov_begin(ep, t, false, &to, &op);
	if (error)
		return error;
	op->counted = true;
	op->report = report;
	there = remote_place(&to, t);
	if (t->flags & FI_INJECT)
		error = prov_copy(ep, t, op, &buffer, &options);
	if (!error)
		error = o2g_write(ep->o2g, &there, buffer, t->length, t->data,
				  options, op);
	return error < 0 ? prov_fail(ep, op, error) : 0;
}

static ssize_t write_transfer(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);

	return start_write(ep, t, prov_reports(&ep->tx, t->flags));
}

/* Allocates an operation only if something waits for its end. */
static ssize_t inject_transfer(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);
	unsigned options = O2G_COPY | O2G_QUIET;
	struct o2g_remote there;
	struct o2g_match to;
	int error;

	if (ep->counter[PROV_WRITES] || t->length > ep->copy_max)
		return start_write(ep, t, false);
	if (t->length && !t->buffer)
		return -FI_EINVAL;
	if (t->flags & FI_REMOTE_CQ_DATA)
		options |= O2G_WITH_DATA;
	error = prov_aim(ep, t, &to);
	if (error)
		return error;
	there = remote_place(&to, t);
	error = o2g_write(ep->o2g, &there, t->buffer, t->length, t->data,
			  options, &ep->injected_write);
	return error < 0 ? prov_again(ep, error) : 0;
}

static ssize_t read_transfer(struct fid_ep *fid, const struct transfer *t)
{
	struct endpoint *ep = prov_endpoint(fid);
	struct o2g_remote there;
	struct operation *op;
	struct o2g_match to;
	int error;

	if ((t->flags & ~READ_FLAGS) || (t->length && !t->buffer))
		return -FI_EINVAL;
	error = prov_begin(ep, t, false, &to, &op);
	if (error)
		return error;
	op->counted = true;
	op->report = prov_reports(&ep->tx, t->flags);
	there = remote_place(&to, t);
	error = o2g_read(ep->o2g, &there, (void *)t->buffer, t->length, 0, op);
	return error < 0 ? prov_fail(ep, op, error) : 0;
}

/* ---- the calls ---- */

/* One local and one remote piece, of the same length. */
static int set_message(struct transfer *t, const struct fi_msg_rma *msg)
{
	if (!msg || prov_transfer_iov(t, msg->msg_iov, msg->iov_count) ||
	    msg->rma_iov_count > 1 || (msg->rma_iov_count && !msg->rma_iov))
		return -FI_EINVAL;
	if (msg->rma_iov_count) {
		if (msg->rma_iov->len != t->length)
			return -FI_EINVAL;
		t->place = msg->rma_iov->addr;
		t->key = msg->rma_iov->key;
	} else if (t->length) {
		return -FI_EINVAL;
	}
	t->address = msg->addr;
	t->context = msg->context;
	t->data = msg->data;
	return 0;
}

/* Flags of an endpoint's operations, without those that only concern
 * messages. */
static uint64_t own_flags(struct fid_ep *ep)
{
	return prov_send_flags(ep) & (ANY_LEVEL | FI_COMPLETION | FI_INJECT);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			   uint64_t flags)
{
	struct transfer t = {.flags = FI_RMA | FI_READ | flags};

	return set_message(&t, msg) ? -FI_EINVAL : read_transfer(ep, &t);
}

static struct transfer place_transfer(const void *buffer, size_t length,
				      fi_addr_t address, uint64_t place,
				      uint64_t key, void *context,
				      uint64_t flags)
{
	return (struct transfer){.buffer = buffer,
				 .length = length,
				 .address = address,
				 .place = place,
				 .key = key,
				 .context = context,
				 .flags = FI_RMA | flags};
}

static ssize_t rma_read(struct fid_ep *ep, void *buffer, size_t length,
			void *desc, fi_addr_t from, uint64_t place,
			uint64_t key, void *context)
{
	const struct transfer t =
		place_transfer(buffer, length, from, place, key, context,
			       FI_READ | (own_flags(ep) & ~FI_INJECT));

	(void)desc;
	return read_transfer(ep, &t);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t from,
			 uint64_t place, uint64_t key, void *context)
{
	struct transfer t = {0};

	if (prov_transfer_iov(&t, iov, count))
		return -FI_EINVAL;
	return rma_read(ep, (void *)t.buffer, t.length, desc ? *desc : NULL,
			from, place, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	struct transfer t = {.flags = FI_RMA | FI_WRITE | flags};

	return set_message(&t, msg) ? -FI_EINVAL : write_transfer(ep, &t);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buffer, size_t length,
			 void *desc, fi_addr_t to, uint64_t place, uint64_t key,
			 void *context)
{
	const struct transfer t =
		place_transfer(buffer, length, to, place, key, context,
			       FI_WRITE | own_flags(ep));

	(void)desc;
	return write_transfer(ep, &t);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov,
			  void **desc, size_t count, fi_addr_t to,
			  uint64_t place, uint64_t key, void *context)
{
	struct transfer t = {0};

	if (prov_transfer_iov(&t, iov, count))
		return -FI_EINVAL;
	return rma_write(ep, t.buffer, t.length, desc ? *desc : NULL, to, place,
			 key, context);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buffer,
			     size_t length, void *desc, uint64_t data,
			     fi_addr_t to, uint64_t place, uint64_t key,
			     void *context)
{
	struct transfer t =
		place_transfer(buffer, length, to, place, key, context,
			       FI_WRITE | FI_REMOTE_CQ_DATA | own_flags(ep));

	(void)desc;
	t.data = data;
	return write_transfer(ep, &t);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buffer, size_t length,
			  fi_addr_t to, uint64_t place, uint64_t key)
{
	const struct transfer t = place_transfer(buffer, length, to, place, key,
						 NULL, FI_WRITE | FI_INJECT);

	return inject_transfer(ep, &t);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buffer,
			      size_t length, uint64_t data, fi_addr_t to,
			      uint64_t place, uint64_t key)
{
	struct transfer t =
		place_transfer(buffer, length, to, place, key, NULL,
			       FI_WRITE | FI_INJECT | FI_REMOTE_CQ_DATA);

	t.data = data;
	return inject_transfer(ep, &t);
}

struct fi_ops_rma prov_rma_ops = {
	.size = sizeof(prov_rma_ops),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
