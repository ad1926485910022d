/* SPDX-License-Identifier: MIT */
/* Poll sets: which of several queues and counters have events. */
#include <stdlib.h>

#include "prov.h"

struct member {
	struct fid *fid;
	uint64_t seen; /* a counter's value when it was last reported */
};

struct pollset {
	PROV_FID(poll);
	struct domain *domain;
	pthread_mutex_t lock; /* of the members */
	struct member *member;
	size_t members;
};

/* The number of users of an object, which prevent closing it. */
static atomic_int *users_of(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return &((struct queue *)fid)->users;
	case FI_CLASS_CNTR:
		return &((struct counter *)fid)->users;
	default:
		return NULL;
	}
}

static struct member *find_member(struct pollset *set, const struct fid *fid)
{
	for (size_t i = 0; i < set->members; i++)
		if (set->member[i].fid == fid)
			return &set->member[i];
	return NULL;
}

static int add_member(struct pollset *set, struct fid *fid)
{
	struct member *more;

	if (find_member(set, fid))
		return 0;
	more = realloc(set->member, (set->members + 1) * sizeof(*more));
	if (!more)
		return -FI_ENOMEM;
	set->member = more;
	more[set->members++] = (struct member){.fid = fid};
	atomic_fetch_add(users_of(fid), 1);
	return 0;
}

static int poll_add(struct fid_poll *fid, struct fid *object, uint64_t flags)
{
	struct pollset *set = (struct pollset *)fid;
	int error;

	if (!object || flags || !users_of(object))
		return -FI_EINVAL;
	if (prov_inherited(set->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&set->lock);
	error = add_member(set, object);
	pthread_mutex_unlock(&set->lock);
	return error;
}

static int poll_del(struct fid_poll *fid, struct fid *object, uint64_t flags)
{
	struct pollset *set = (struct pollset *)fid;
	struct member *member;

	if (!object || flags)
		return -FI_EINVAL;
	if (prov_inherited(set->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&set->lock);
	member = find_member(set, object);
	if (member) {
		*member = set->member[--set->members];
		atomic_fetch_sub(users_of(object), 1);
	}
	pthread_mutex_unlock(&set->lock);
	return member ? 0 : -FI_EINVAL;
}

/* Whether a queue is not empty, or a counter has changed since it was
 * reported. */
static int member_ready(struct member *member)
{
	struct queue *queue = (struct queue *)member->fid;
	uint64_t now;
	int error;

	if (member->fid->fclass == FI_CLASS_CQ) {
		error = prov_source_progress(&queue->source, false);
		return error ? error : prov_queue_count(queue) > 0;
	}
	error = prov_counter_total((struct counter *)member->fid, &now);
	if (error || now == member->seen)
		return error;
	member->seen = now;
	return 1;
}

static int poll_members(struct pollset *set, void **context, int count)
{
	int n = 0;

	for (size_t i = 0; i < set->members && n < count; i++) {
		int ready = member_ready(&set->member[i]);

		if (ready < 0)
			return ready;
		if (ready)
			context[n++] = set->member[i].fid->context;
	}
	return n;
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
	struct pollset *set = (struct pollset *)fid;
	int n;

	if (count < 0 || (count && !context))
		return -FI_EINVAL;
	if (prov_inherited(set->domain))
		return -FI_EBADF;
	pthread_mutex_lock(&set->lock);
	n = poll_members(set, context, count);
	pthread_mutex_unlock(&set->lock);
	return n;
}

static int poll_close(struct fid *fid)
{
	struct pollset *set = (struct pollset *)fid;

	for (size_t i = 0; i < set->members; i++)
		atomic_fetch_sub(users_of(set->member[i].fid), 1);
	atomic_fetch_sub(&set->domain->users, 1);
	pthread_mutex_destroy(&set->lock);
	free(set->member);
	free(set);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = poll_close,
	.bind = prov_bind_refused,
	.control = prov_control_refused,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_poll ops = {
	.size = sizeof(ops),
	.poll = poll_poll,
	.poll_add = poll_add,
	.poll_del = poll_del,
};

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
		   struct fid_poll **out)
{
	struct pollset *set;

	if (attr && attr->flags)
		return -FI_EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -FI_ENOMEM;
	set->domain = (struct domain *)domain;
	atomic_fetch_add(&set->domain->users, 1);
	pthread_mutex_init(&set->lock, NULL);
	set->fid.fid.fclass = FI_CLASS_POLL;
	set->fid.fid.ops = &fid_ops;
	set->fid.ops = &ops;
	*out = &set->fid;
	return 0;
}
