/* SPDX-License-Identifier: MIT */
/*
 * Wait sets: sleeping until one of the queues and counters that were opened
 * with the set has an event. The set's epoll watches those of its members.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "prov.h"

struct waitset {
	PROV_FID(wait);
	struct fabric *fabric;
	unsigned forks;	      /* prov_forks when it was opened */
	pthread_mutex_t lock; /* of the members */
	struct fid **member;
	size_t members;
	int epoll;
};

static bool set_inherited(const struct waitset *set)
{
	return set->forks != prov_forks;
}

int prov_wait_join(struct fid_wait *fid, struct fid *object, int epoll)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct waitset *set = (struct waitset *)fid;
	struct fid **more;
	int error = 0;

	if (!set || set->fid.fid.fclass != FI_CLASS_WAIT)
		return -FI_EINVAL;
	if (set_inherited(set))
		return -FI_EBADF;
	pthread_mutex_lock(&set->lock);
	more = realloc(set->member, (set->members + 1) * sizeof(*more));
	if (more)
		set->member = more;
	if (!more)
		error = -FI_ENOMEM;
	else if (epoll_ctl(set->epoll, EPOLL_CTL_ADD, epoll, &event))
		error = -errno;
	else
		more[set->members++] = object;
	pthread_mutex_unlock(&set->lock);
	return error;
}

void prov_wait_leave(struct fid_wait *fid, struct fid *object, int epoll)
{
	struct waitset *set = (struct waitset *)fid;

	if (set_inherited(set))
		return;
	pthread_mutex_lock(&set->lock);
	for (size_t i = 0; i < set->members; i++)
		if (set->member[i] == object) {
			set->member[i] = set->member[--set->members];
			epoll_ctl(set->epoll, EPOLL_CTL_DEL, epoll, NULL);
		}
	pthread_mutex_unlock(&set->lock);
}

/* Arms all members, so that they record events from now on. False: there is an
 * event already. */
bool prov_wait_try_sleep(struct fid_wait *fid)
{
	struct waitset *set = (struct waitset *)fid;
	bool quiet = true;

	pthread_mutex_lock(&set->lock);
	for (size_t i = 0; i < set->members; i++)
		quiet &= prov_try_sleep(set->member[i]);
	pthread_mutex_unlock(&set->lock);
	return quiet;
}

static int wait_wait(struct fid_wait *fid, int timeout)
{
	struct waitset *set = (struct waitset *)fid;
	int64_t deadline = prov_deadline(timeout);
	int error;

	if (set_inherited(set))
		return -FI_EBADF;
	while (prov_wait_try_sleep(fid)) {
		error = prov_sleep_on(set->epoll, deadline);
		if (error)
			return error == -FI_EAGAIN ? -FI_ETIMEDOUT : error;
	}
	return 0;
}

static int wait_close(struct fid *fid)
{
	struct waitset *set = (struct waitset *)fid;

	if (!set_inherited(set) && set->members)
		return -FI_EBUSY;
	atomic_fetch_sub(&set->fabric->users, 1);
	pthread_mutex_destroy(&set->lock);
	close(set->epoll);
	free(set->member);
	free(set);
	return 0;
}

static int wait_control(struct fid *fid, int command, void *arg)
{
	struct waitset *set = (struct waitset *)fid;

	if (!arg)
		return -FI_EINVAL;
	switch (command) {
	case FI_GETWAIT:
		*(int *)arg = set->epoll;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = FI_WAIT_FD;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = wait_close,
	.bind = prov_bind_refused,
	.control = wait_control,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_wait ops = {
	.size = sizeof(ops),
	.wait = wait_wait,
};

int prov_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
		   struct fid_wait **out)
{
	struct waitset *set;

	if (!attr || attr->flags)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -FI_ENOMEM;
	set->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (set->epoll < 0) {
		free(set);
		return -FI_EMFILE;
	}
	set->forks = prov_forks;
	set->fabric = (struct fabric *)fabric;
	atomic_fetch_add(&set->fabric->users, 1);
	pthread_mutex_init(&set->lock, NULL);
	set->fid.fid.fclass = FI_CLASS_WAIT;
	set->fid.fid.ops = &fid_ops;
	set->fid.ops = &ops;
	*out = &set->fid;
	return 0;
}
