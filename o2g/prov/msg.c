/* SPDX-License-Identifier: MIT */
/* The calls of untagged messages. */
#include "prov.h"

static ssize_t msg_recv(struct fid_ep *ep, void *buffer, size_t length,
			void *desc, fi_addr_t from, void *context)
{
	(void)desc;
	return prov_receive(ep,
			    &(struct transfer){
				    .buffer = buffer,
				    .length = length,
				    .address = from,
				    .context = context,
				    .flags = FI_MSG | prov_receive_flags(ep),
			    });
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg,
			   uint64_t flags)
{
	struct transfer t = {.flags = FI_MSG | flags};

	if (!msg || prov_transfer_iov(&t, msg->msg_iov, msg->iov_count))
		return -FI_EINVAL;
	t.address = msg->addr;
	t.context = msg->context;
	return prov_receive(ep, &t);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t from,
			 void *context)
{
	struct fi_msg msg = {.msg_iov = iov,
			     .desc = desc,
			     .iov_count = count,
			     .addr = from,
			     .context = context};

	return msg_recvmsg(ep, &msg, prov_receive_flags(ep));
}

static ssize_t msg_send(struct fid_ep *ep, const void *buffer, size_t length,
			void *desc, fi_addr_t to, void *context)
{
	(void)desc;
	return prov_send(ep, &(struct transfer){
				     .buffer = buffer,
				     .length = length,
				     .address = to,
				     .context = context,
				     .flags = FI_MSG | prov_send_flags(ep),
			     });
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg,
			   uint64_t flags)
{
	struct transfer t = {.flags = FI_MSG | flags};

	if (!msg || prov_transfer_iov(&t, msg->msg_iov, msg->iov_count))
		return -FI_EINVAL;
	t.address = msg->addr;
	t.context = msg->context;
	t.data = msg->data;
	return prov_send(ep, &t);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t to, void *context)
{
	struct fi_msg msg = {.msg_iov = iov,
			     .desc = desc,
			     .iov_count = count,
			     .addr = to,
			     .context = context};

	return msg_sendmsg(ep, &msg, prov_send_flags(ep));
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buffer,
			    size_t length, void *desc, uint64_t data,
			    fi_addr_t to, void *context)
{
	(void)desc;
	return prov_send(ep, &(struct transfer){
				     .buffer = buffer,
				     .length = length,
				     .address = to,
				     .data = data,
				     .context = context,
				     .flags = FI_MSG | FI_REMOTE_CQ_DATA |
					      prov_send_flags(ep),
			     });
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buffer, size_t length,
			  fi_addr_t to)
{
	return prov_inject(ep, &(struct transfer){
				       .buffer = buffer,
				       .length = length,
				       .address = to,
				       .flags = FI_MSG | FI_INJECT,
			       });
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buffer,
			      size_t length, uint64_t data, fi_addr_t to)
{
	return prov_inject(
		ep, &(struct transfer){
			    .buffer = buffer,
			    .length = length,
			    .address = to,
			    .data = data,
			    .flags = FI_MSG | FI_INJECT | FI_REMOTE_CQ_DATA,
		    });
}

struct fi_ops_msg prov_msg_ops = {
	.size = sizeof(prov_msg_ops),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
