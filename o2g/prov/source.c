/* SPDX-License-Identifier: MIT */
/*
 * Where the events of queues and counters come from: their endpoints. The lock
 * guards the list. A caller that does not get it at once need not wait, because
 * the holder makes the same progress.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "prov.h"

int prov_source_init(struct source *source, const struct domain *domain,
		     enum fi_wait_obj wait)
{
	struct epoll_event event = {.events = EPOLLIN};

	source->domain = domain;
	prov_lock_init(&source->lock, domain->serial);
	source->epoll = source->event = -1;
	if (wait == FI_WAIT_NONE)
		return 0;
	if (wait != FI_WAIT_UNSPEC && wait != FI_WAIT_FD && wait != FI_WAIT_SET)
		return -FI_ENOSYS;
	source->waits = true;
	source->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	source->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (source->event >= 0 && source->epoll >= 0 &&
	    !epoll_ctl(source->epoll, EPOLL_CTL_ADD, source->event, &event))
		return 0;
	prov_source_free(source);
	return -FI_EMFILE;
}

int prov_source_enlist(struct source *source, struct fid_wait *set,
		       struct fid *member)
{
	int error = prov_wait_join(set, member, source->epoll);

	if (error)
		return error;
	source->set = set;
	source->member = member;
	return 0;
}

void prov_source_free(struct source *source)
{
	if (source->set)
		prov_wait_leave(source->set, source->member, source->epoll);
	if (source->epoll >= 0)
		close(source->epoll);
	if (source->event >= 0)
		close(source->event);
	free(source->endpoint);
	prov_lock_destroy(&source->lock);
}

static int find_endpoint(const struct source *source, const struct endpoint *ep)
{
	for (int i = 0; i < source->count; i++)
		if (source->endpoint[i] == ep)
			return i;
	return -1;
}

static int add_endpoint(struct source *source, struct endpoint *ep)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct endpoint **more;

	if (find_endpoint(source, ep) >= 0)
		return 0;
	more = realloc(source->endpoint,
		       (size_t)(source->count + 1) * sizeof(*more));
	if (!more)
		return -FI_ENOMEM;
	source->endpoint = more;
	if (source->waits && epoll_ctl(source->epoll, EPOLL_CTL_ADD,
				       o2g_descriptor(ep->o2g), &event))
		return -errno;
	source->endpoint[source->count++] = ep;
	return 0;
}

int prov_source_add(struct source *source, struct endpoint *ep)
{
	int error;

	prov_lock(&source->lock);
	error = add_endpoint(source, ep);
	prov_unlock(&source->lock);
	return error;
}

void prov_source_remove(struct source *source, struct endpoint *ep)
{
	int i;

	if (prov_inherited(source->domain))
		return;
	prov_lock(&source->lock);
	i = find_endpoint(source, ep);
	if (i >= 0) {
		if (source->waits)
			epoll_ctl(source->epoll, EPOLL_CTL_DEL,
				  o2g_descriptor(ep->o2g), NULL);
		source->endpoint[i] = source->endpoint[--source->count];
	}
	prov_unlock(&source->lock);
}

int prov_source_progress(struct source *source, bool nap)
{
	int taken = 0;

	if (!prov_trylock(&source->lock))
		return prov_inherited(source->domain) ? -FI_EBADF : 0;
	for (int i = 0; i < source->count && taken >= 0; i++) {
		int n = prov_endpoint_progress(source->endpoint[i]);

		taken = n < 0 ? n : taken + n;
	}
	/* Napping on one of several would keep the others waiting. */
	if (nap && !taken && source->count == 1 &&
	    prov_endpoint_awaited(source->endpoint[0]))
		o2g_nap(source->endpoint[0]->o2g);
	prov_unlock(&source->lock);
	return taken < 0 ? taken : 0;
}

void prov_source_fire(struct source *source)
{
	uint64_t one = 1;

	if (!source->waits || !atomic_exchange(&source->armed, false))
		return;
	/* Fails only when it is readable already. */
	if (write(source->event, &one, sizeof(one)) < 0)
		return;
}

void prov_source_arm(struct source *source)
{
	uint64_t count;

	if (prov_inherited(source->domain))
		return; /* the parent reads it */
	/* Fails if nothing was written, which is harmless. */
	if (read(source->event, &count, sizeof(count)) < 0)
		count = 0;
	atomic_store(&source->armed, true);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t prov_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
}

int prov_sleep_on(int descriptor, int64_t deadline)
{
	struct pollfd fd = {.fd = descriptor, .events = POLLIN};
	int64_t left = deadline < 0 ? -1 : deadline - now_ms();
	int n;

	if (deadline >= 0 && left <= 0)
		return -FI_EAGAIN;
	n = poll(&fd, 1, left > 3600000 ? 3600000 : (int)left);
	return n < 0 ? -errno : 0;
}

int prov_source_sleep(struct source *source, int64_t deadline)
{
	if (atomic_exchange(&source->called, false))
		return -FI_EAGAIN;
	if (source->waits)
		return prov_sleep_on(source->epoll, deadline);
	if (deadline >= 0 && now_ms() >= deadline)
		return -FI_EAGAIN;
	return poll(NULL, 0, 1) < 0 ? -errno : 0; /* nothing wakes it */
}

void prov_source_call(struct source *source)
{
	atomic_store(&source->called, true);
	atomic_store(&source->armed, true);
	prov_source_fire(source);
}

int prov_source_control(struct source *source, int command, void *arg)
{
	if (!arg)
		return -FI_EINVAL;
	switch (command) {
	case FI_GETWAIT:
		if (!source->waits)
			return -FI_ENODATA;
		*(int *)arg = source->epoll;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = source->set	   ? FI_WAIT_SET
					   : source->waits ? FI_WAIT_FD
							   : FI_WAIT_NONE;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}
