// SPDX-License-Identifier: MIT
/*
 * fork(): the child has neither our threads nor the memory of the rings, so
 * its copies of endpoints are dead, and their descriptors closed. All locks
 * are held across the fork, so that the child finds them consistent. While a
 * thread opens or closes an endpoint, fork() by another waits: the child could
 * not close descriptors that are in no list.
 */
#include "endpoint.h"
#include "error.h"
#include "trace.h"

#include <errno.h>
#include <string.h>

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static struct o2g *first;

static void prepare_fork(void)
{
	pthread_mutex_lock(&all);
	for (struct o2g *o = first; o; o = o->next) {
		pthread_mutex_lock(&o->take);
		pthread_mutex_lock(&o->submit);
		pthread_mutex_lock(&o->lock);
		o->ops->fork(o->engine, O2G_FORK_PREPARE);
	}
}

static void unlock_endpoint(struct o2g *o)
{
	pthread_mutex_unlock(&o->lock);
	pthread_mutex_unlock(&o->submit);
	pthread_mutex_unlock(&o->take);
}

static void resume_parent(void)
{
	for (struct o2g *o = first; o; o = o->next) {
		o->ops->fork(o->engine, O2G_FORK_PARENT);
		unlock_endpoint(o);
	}
	pthread_mutex_unlock(&all);
}

static void reset_child(void)
{
	for (struct o2g *o = first; o; o = o->next) {
		o->ops->fork(o->engine, O2G_FORK_CHILD);
		o2g_opener_close_files(o);
		o2g_page_fork(o);
		o2g_trace_fork(o);
		__atomic_store_n(&o->dead, 1, __ATOMIC_SEQ_CST);
		unlock_endpoint(o);
	}
	__atomic_store_n(&first, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&all);
}

static int handlers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add_handlers(void)
{
	handlers = -pthread_atfork(prepare_fork, resume_parent, reset_child);
}

int o2g_fork_prepare(void)
{
	pthread_once(&once, add_handlers);
	if (handlers)
		return o2g_error_set(handlers,
				     "can't register fork() handlers: %s",
				     strerror(-handlers));
	return 0;
}

void o2g_fork_hold(void)
{
	pthread_mutex_lock(&all);
}

void o2g_fork_release(void)
{
	pthread_mutex_unlock(&all);
}

void o2g_fork_watch(struct o2g *o2g)
{
	o2g_assert_locked(&all);
	o2g->next = first;
	__atomic_store_n(&first, o2g, __ATOMIC_RELAXED);
}

void o2g_fork_forget(struct o2g *o2g)
{
	o2g_assert_locked(&all);
	for (struct o2g **at = &first; *at; at = &(*at)->next)
		if (*at == o2g) {
			*at = o2g->next;
			break;
		}
}

int o2g_fork_any(void)
{
	return __atomic_load_n(&first, __ATOMIC_RELAXED) != 0;
}

void o2g_fork_each(void (*visit)(struct o2g *o2g))
{
	pthread_mutex_lock(&all);
	for (struct o2g *o = first; o; o = o->next)
		visit(o);
	pthread_mutex_unlock(&all);
}

int o2g_endpoint_alive(const struct o2g *o2g)
{
	if (o2g && !__atomic_load_n(&o2g->dead, __ATOMIC_RELAXED))
		return 0;
	return o2g_error_set(-EBADF,
			     o2g ? "this endpoint belongs to the process that "
				   "opened it, not to a child of fork(): open "
				   "one here"
				 : "no endpoint was given");
}
