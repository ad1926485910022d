/* SPDX-License-Identifier: MIT */
/*
 * Completion queues. An empty one is cheap to read, because programs that only
 * poll do it all the time: one look at two indices, then at the endpoints.
 * Errors keep their order among the other completions; a read stops before one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prov.h"

#define ROOM_MIN 65536
/* Of attr.size: as many operations as libo2g has in flight at most. */
#define QUEUE_SIZE_MAX ((size_t)1 << 23)

static const size_t entry_size[] = {
	[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
	[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

size_t prov_queue_count(struct queue *queue)
{
	return atomic_load(&queue->count);
}

bool prov_queue_half_full(struct queue *queue)
{
	return prov_queue_count(queue) > queue->room / 2;
}

static struct completion *queue_entry(struct queue *queue, size_t index)
{
	return &queue->ring[index & (queue->room - 1)];
}

/* The queue must be locked and not empty. */
static void drop_head(struct queue *queue)
{
	prov_assert_locked(&queue->lock);
	/* An empty ring starts at its beginning again, which is in the
	 * cache. */
	if (atomic_fetch_sub(&queue->count, 1) == 1)
		queue->head = 0;
	else
		queue->head++;
}

bool prov_queue_put(struct queue *queue, const struct completion *completion)
{
	size_t count;

	prov_lock(&queue->lock);
	count = atomic_load(&queue->count);
	if (count < queue->room) {
		*queue_entry(queue, queue->head + count) = *completion;
		atomic_store(&queue->count, count + 1);
	}
	prov_unlock(&queue->lock);
	prov_source_fire(&queue->source);
	return count < queue->room;
}

static ssize_t take_completions(struct queue *queue, void *buffer, size_t most,
				fi_addr_t *from)
{
	size_t size = entry_size[queue->format];
	ssize_t n = 0;

	if (prov_inherited(queue->domain))
		return -FI_EBADF;
	prov_lock(&queue->lock);
	while ((size_t)n < most && atomic_load(&queue->count)) {
		struct completion *c = queue_entry(queue, queue->head);

		if (c->error)
			break;
		/* Each format is a prefix of the longest one. */
		memcpy((char *)buffer + (size_t)n * size, &c->entry, size);
		if (from)
			from[n] = c->from;
		drop_head(queue);
		n++;
	}
	if (!n)
		n = atomic_load(&queue->count) ? -FI_EAVAIL : -FI_EAGAIN;
	prov_unlock(&queue->lock);
	return n;
}

/* Reading 0 entries makes progress, even if the queue is not empty. */
static ssize_t read_queue(struct queue *queue, void *buffer, size_t count,
			  fi_addr_t *from, bool nap)
{
	int error;

	if (!count || !prov_queue_count(queue)) {
		error = prov_source_progress(&queue->source, nap && count);
		if (error)
			return error;
	}
	if (!prov_queue_count(queue))
		return -FI_EAGAIN;
	if (!count)
		return 0;
	return buffer ? take_completions(queue, buffer, count, from)
		      : -FI_EINVAL;
}

static ssize_t queue_readfrom(struct fid_cq *fid, void *buffer, size_t count,
			      fi_addr_t *from)
{
	return read_queue((struct queue *)fid, buffer, count, from, true);
}

static ssize_t queue_read(struct fid_cq *fid, void *buffer, size_t count)
{
	return read_queue((struct queue *)fid, buffer, count, NULL, true);
}

static ssize_t queue_sreadfrom(struct fid_cq *fid, void *buffer, size_t count,
			       fi_addr_t *from, const void *cond, int timeout)
{
	struct queue *queue = (struct queue *)fid;
	int64_t deadline = prov_deadline(timeout);
	ssize_t n;

	(void)cond; /* a hint */
	if (!queue->source.waits)
		return -FI_EINVAL;
	for (;;) {
		int error;

		n = read_queue(queue, buffer, count, from, false);
		if (n != -FI_EAGAIN)
			return n;
		prov_source_arm(&queue->source);
		n = read_queue(queue, buffer, count, from, false);
		if (n != -FI_EAGAIN)
			return n;
		error = prov_source_sleep(&queue->source, deadline);
		if (error)
			return error;
	}
}

static ssize_t queue_sread(struct fid_cq *fid, void *buffer, size_t count,
			   const void *cond, int timeout)
{
	return queue_sreadfrom(fid, buffer, count, NULL, cond, timeout);
}

bool prov_queue_try_sleep(struct queue *queue)
{
	if (!queue->source.waits)
		return false;
	prov_source_arm(&queue->source);
	return !prov_queue_count(queue) &&
	       !prov_source_progress(&queue->source, false) &&
	       !prov_queue_count(queue);
}

static void fill_error(const struct completion *c, struct fi_cq_err_entry *e,
		       uint32_t version)
{
	e->op_context = c->entry.op_context;
	e->flags = c->entry.flags;
	e->len = c->entry.len;
	e->buf = c->entry.buf;
	e->data = c->entry.data;
	e->tag = c->entry.tag;
	e->olen = c->cut;
	e->err = c->error;
	e->prov_errno = c->error;
	e->err_data = NULL;
	/* Programs of before 1.5 end their struct here. */
	if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
		e->err_data_size = 0;
}

static ssize_t queue_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry,
			     uint64_t flags)
{
	struct queue *queue = (struct queue *)fid;
	ssize_t n = -FI_EAGAIN;

	if (!entry || flags)
		return -FI_EINVAL;
	if (prov_inherited(queue->domain))
		return -FI_EBADF;
	prov_lock(&queue->lock);
	if (atomic_load(&queue->count) &&
	    queue_entry(queue, queue->head)->error) {
		fill_error(queue_entry(queue, queue->head), entry,
			   queue->domain->fabric->version);
		drop_head(queue);
		n = 1;
	}
	prov_unlock(&queue->lock);
	return n;
}

static int queue_signal(struct fid_cq *fid)
{
	struct queue *queue = (struct queue *)fid;

	if (!queue->source.waits)
		return -FI_EINVAL;
	prov_source_call(&queue->source);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int error, const void *data,
			       char *buffer, size_t length)
{
	const char *text = prov_strerror(error);

	(void)fid, (void)data;
	if (buffer && length)
		snprintf(buffer, length, "%s", text);
	return text;
}

static int queue_control(struct fid *fid, int command, void *arg)
{
	return prov_source_control(&((struct queue *)fid)->source, command,
				   arg);
}

static int queue_close(struct fid *fid)
{
	struct queue *queue = (struct queue *)fid;

	if (atomic_load(&queue->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&queue->domain->users, 1);
	prov_source_free(&queue->source);
	prov_lock_destroy(&queue->lock);
	free(queue->ring);
	free(queue);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = queue_close,
	.bind = prov_bind_refused,
	.control = queue_control,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_cq ops = {
	.size = sizeof(ops),
	.read = queue_read,
	.readfrom = queue_readfrom,
	.readerr = queue_readerr,
	.sread = queue_sread,
	.sreadfrom = queue_sreadfrom,
	.signal = queue_signal,
	.strerror = cq_strerror,
};

/* Unread completions must fit into half of it. */
static int queue_alloc(struct queue **out, const struct domain *domain,
		       const struct fi_cq_attr *attr)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	int error = -FI_ENOMEM;

	if (!queue)
		return error;
	queue->room = ROOM_MIN;
	while (queue->room / 2 < attr->size)
		queue->room *= 2;
	queue->ring = calloc(queue->room, sizeof(*queue->ring));
	if (queue->ring)
		error = prov_source_init(&queue->source, domain,
					 attr->wait_obj);
	prov_lock_init(&queue->lock, domain->serial);
	*out = queue;
	if (!error && attr->wait_obj == FI_WAIT_SET) {
		queue->fid.fid.fclass = FI_CLASS_CQ;
		error = prov_source_enlist(&queue->source, attr->wait_set,
					   &queue->fid.fid);
		if (error)
			prov_source_free(&queue->source);
	}
	if (!error)
		return 0;
	free(queue->ring);
	free(queue);
	return error;
}

int prov_queue_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		    struct fid_cq **out, void *context)
{
	struct queue *queue;
	int error;

	if (!attr || attr->format > FI_CQ_FORMAT_TAGGED ||
	    attr->size > QUEUE_SIZE_MAX)
		return -FI_EINVAL;
	error = queue_alloc(&queue, (struct domain *)domain, attr);
	if (error)
		return error;
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_CONTEXT;
	queue->format = attr->format;
	queue->domain = (struct domain *)domain;
	atomic_fetch_add(&queue->domain->users, 1);
	queue->fid.fid.fclass = FI_CLASS_CQ;
	queue->fid.fid.context = context;
	queue->fid.fid.ops = &fid_ops;
	queue->fid.ops = &ops;
	*out = &queue->fid;
	return 0;
}
