/* SPDX-License-Identifier: MIT */
/* The calls of tagged messages. */
#include "prov.h"

/* FI_MULTI_RECV is only for untagged messages. */
static uint64_t receive_flags(struct fid_ep *ep)
{
	return prov_receive_flags(ep) & ~FI_MULTI_RECV;
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buffer, size_t length,
			   void *desc, fi_addr_t from, uint64_t tag,
			   uint64_t ignore, void *context)
{
	(void)desc;
	return prov_receive(ep, &(struct transfer){
					.buffer = buffer,
					.length = length,
					.address = from,
					.tag = tag,
					.ignore = ignore,
					.context = context,
					.flags = FI_TAGGED | receive_flags(ep),
				});
}

static ssize_t tagged_recvmsg(struct fid_ep *ep,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct transfer t = {.flags = FI_TAGGED | flags};

	if (!msg || prov_transfer_iov(&t, msg->msg_iov, msg->iov_count))
		return -FI_EINVAL;
	t.address = msg->addr;
	t.tag = msg->tag;
	t.ignore = msg->ignore;
	t.context = msg->context;
	return prov_receive(ep, &t);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t from,
			    uint64_t tag, uint64_t ignore, void *context)
{
	struct fi_msg_tagged msg = {.msg_iov = iov,
				    .desc = desc,
				    .iov_count = count,
				    .addr = from,
				    .tag = tag,
				    .ignore = ignore,
				    .context = context};

	return tagged_recvmsg(ep, &msg, receive_flags(ep));
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buffer, size_t length,
			   void *desc, fi_addr_t to, uint64_t tag,
			   void *context)
{
	(void)desc;
	return prov_send(ep, &(struct transfer){
				     .buffer = buffer,
				     .length = length,
				     .address = to,
				     .tag = tag,
				     .context = context,
				     .flags = FI_TAGGED | prov_send_flags(ep),
			     });
}

static ssize_t tagged_sendmsg(struct fid_ep *ep,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct transfer t = {.flags = FI_TAGGED | flags};

	if (!msg || prov_transfer_iov(&t, msg->msg_iov, msg->iov_count))
		return -FI_EINVAL;
	t.address = msg->addr;
	t.tag = msg->tag;
	t.context = msg->context;
	t.data = msg->data;
	return prov_send(ep, &t);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t to,
			    uint64_t tag, void *context)
{
	struct fi_msg_tagged msg = {.msg_iov = iov,
				    .desc = desc,
				    .iov_count = count,
				    .addr = to,
				    .tag = tag,
				    .context = context};

	return tagged_sendmsg(ep, &msg, prov_send_flags(ep));
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buffer,
			       size_t length, void *desc, uint64_t data,
			       fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return prov_send(ep, &(struct transfer){
				     .buffer = buffer,
				     .length = length,
				     .address = to,
				     .tag = tag,
				     .data = data,
				     .context = context,
				     .flags = FI_TAGGED | FI_REMOTE_CQ_DATA |
					      prov_send_flags(ep),
			     });
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buffer,
			     size_t length, fi_addr_t to, uint64_t tag)
{
	return prov_inject(ep, &(struct transfer){
				       .buffer = buffer,
				       .length = length,
				       .address = to,
				       .tag = tag,
				       .flags = FI_TAGGED | FI_INJECT,
			       });
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buffer,
				 size_t length, uint64_t data, fi_addr_t to,
				 uint64_t tag)
{
	return prov_inject(
		ep, &(struct transfer){
			    .buffer = buffer,
			    .length = length,
			    .address = to,
			    .tag = tag,
			    .data = data,
			    .flags = FI_TAGGED | FI_INJECT | FI_REMOTE_CQ_DATA,
		    });
}

struct fi_ops_tagged prov_tagged_ops = {
	.size = sizeof(prov_tagged_ops),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
