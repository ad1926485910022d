// SPDX-License-Identifier: MIT
/*
 * The opener: a thread of each endpoint that accepts and dials, and performs
 * the opening of each connection before the engine gets it. It never waits for
 * a call of the program. The endpoint's `lock` guards everything here.
 *
 * A try is one opening, or the pause between two dials of one peer. A try that
 * has ended stays allocated until the current batch of events has been
 * processed.
 */
#define _GNU_SOURCE /* accept4 */
#include "endpoint.h"
#include "error.h"
#include "spawn.h"
#include "try.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BATCH 64
/* Accepted, unauthenticated connections; see evict_unproven(). */
#define UNPROVEN_MAX 128
#define REST_NS 100000000ll
#define SHOW_NS 100000000ll	 /* between two updates of the counters */
#define SHOW_MAX_NS 1600000000ll /* the same while they do not change */
#define SLOW_NS 1000000000ll	 /* an opening normally takes less */

static void wake_opener(struct o2g *o2g)
{
	const u64 one = 1;

	if (write(o2g->opener.event, &one, sizeof(one)) < 0)
		return; /* the pipe is full, so it is readable */
}

static void list_peer(struct o2g *o2g, struct o2g_peer *peer)
{
	if (!peer->listed) {
		peer->wanted = o2g->opener.wanted;
		o2g->opener.wanted = peer;
		peer->listed = 1;
	}
	wake_opener(o2g);
}

void o2g_opener_dial(struct o2g *o2g, struct o2g_peer *peer)
{
	o2g_assert_locked(&o2g->lock);
	o2g_peer_set(peer, O2G_PEER_DIALED);
	o2g->opener.dials++;
	peer->counted = 1;
	list_peer(o2g, peer);
}

void o2g_opener_expect(struct o2g *o2g, struct o2g_peer *peer)
{
	o2g_assert_locked(&o2g->lock);
	o2g_peer_set(peer, O2G_PEER_EXPECTED);
	list_peer(o2g, peer);
}

int o2g_opener_adopt(struct o2g *o2g, int socket, struct o2g_peer *peer,
		     int dialled)
{
	int r = o2g_try_adopt(o2g, socket, peer, dialled);

	o2g_assert_locked(&o2g->lock);
	wake_opener(o2g); /* a new deadline */
	return r;
}

/* The oldest unauthenticated peer, of those that have named this job and
 * endpoint or of the others, if it is at least this old. */
static struct o2g_try *oldest_unproven(struct o2g *o2g, int named, s64 ns)
{
	struct o2g_try *try = o2g->opener.tries;

	while (try && (!o2g_try_unproven(try) || o2g_try_named(try) != named))
		try = try->next;
	if (try && o2g_try_age(try) < ns)
		return 0;
	return try;
}

/* Makes room by disconnecting an unauthenticated peer, preferably one that has
 * not named this job. So silent connections, however many, never displace an
 * opening in progress. */
static int evict_unproven(struct o2g *o2g, s64 ns)
{
	struct o2g_try *try = oldest_unproven(o2g, 0, ns);

	if (!try)
		try = oldest_unproven(o2g, 1, ns);
	if (try)
		o2g_try_drop(o2g, try);
	return try != 0;
}

static void pause_listener(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;

	epoll_ctl(opener->epoll, EPOLL_CTL_DEL, opener->listener, 0);
	opener->resting = 1;
}

static int listen_again(struct o2g *o2g)
{
	struct epoll_event event = {.events = EPOLLIN};

	event.data.ptr = &o2g->opener.listener;
	return epoll_ctl(o2g->opener.epoll, EPOLL_CTL_ADD, o2g->opener.listener,
			 &event);
}

static void accept_some(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;

	for (int i = 0; i < BATCH; i++) {
		int fd = accept4(opener->listener, 0, 0,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			if (opener->unproven >= UNPROVEN_MAX)
				evict_unproven(o2g, 0);
			if (o2g_try_accept(o2g, fd))
				close(fd);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (o2g_try_lacks_memory(o2g, -errno) &&
		    !evict_unproven(o2g, SLOW_NS)) {
			pause_listener(o2g);
			return;
		}
	}
}

static void dial_wanted(struct o2g *o2g)
{
	struct o2g_peer *peer;

	while ((peer = o2g->opener.wanted)) {
		o2g->opener.wanted = peer->wanted;
		peer->listed = 0;
		if (peer->state == O2G_PEER_EXPECTED)
			o2g_try_expect(o2g, peer);
		else if (peer->counted && peer->state == O2G_PEER_DIALED)
			o2g_try_dial(o2g, peer);
		else if (peer->counted)
			o2g->opener.dials--; /* the peer connected first */
	}
}

/* Handles timeouts. Returns the ms until the next one, or -1 if there is
 * none. */
static int expire_tries(struct o2g *o2g)
{
	s64 now = o2g_now_ns(), next = -1;
	struct o2g_try *try, *after;

	for (try = o2g->opener.tries; try; try = after) {
		after = try->next;
		if (try->deadline <= now)
			o2g_try_expire(o2g, try);
	}
	for (try = o2g->opener.tries; try; try = try->next)
		if (next < 0 || try->deadline < next)
			next = try->deadline;
	if (o2g->opener.resting && (next < 0 || next > now + REST_NS))
		next = now + REST_NS;
	if (next < 0)
		return -1;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static void handle_event(struct o2g *o2g, struct epoll_event *event)
{
	struct o2g_opener *opener = &o2g->opener;
	u64 count;

	if (event->data.ptr == &opener->listener)
		accept_some(o2g);
	else if (event->data.ptr != &opener->event)
		o2g_try_work(o2g, event->data.ptr);
	else if (read(opener->event, &count, sizeof(count)) < 0)
		return; /* an earlier wake-up */
}

/* Shows the counters of an engine without a thread, more often while they
 * change. Returns the ms until the next time. The caller does not hold
 * `lock`. */
static int update_page(struct o2g *o2g, int wait)
{
	struct o2g_opener *opener = &o2g->opener;
	s64 now = o2g_now_ns(), ns = 2 * opener->show_ns;
	int ms;

	if (!o2g->ops->module)
		return wait;
	if (now >= opener->show_at) {
		if (o2g_page_look(o2g) || ns < SHOW_NS)
			ns = SHOW_NS;
		opener->show_ns = ns < SHOW_MAX_NS ? ns : SHOW_MAX_NS;
		opener->show_at = now + opener->show_ns;
	}
	ms = (int)((opener->show_at - now) / 1000000 + 1);
	return wait < 0 || ms < wait ? ms : wait;
}

static void *run_opener(void *arg)
{
	struct o2g *o2g = arg;
	struct o2g_opener *opener = &o2g->opener;
	struct epoll_event event[BATCH];

	pthread_mutex_lock(&o2g->lock);
	while (!opener->stop) {
		int wait, n;

		dial_wanted(o2g);
		wait = expire_tries(o2g);
		o2g_try_abort(o2g);
		if (opener->dials == 0)
			pthread_cond_broadcast(&opener->calm);
		pthread_mutex_unlock(&o2g->lock);
		wait = update_page(o2g, wait);
		n = epoll_wait(opener->epoll, event, BATCH, wait);
		pthread_mutex_lock(&o2g->lock);
		if (opener->resting && listen_again(o2g) == 0)
			opener->resting = 0;
		for (int i = 0; i < n; i++)
			handle_event(o2g, &event[i]);
	}
	pthread_mutex_unlock(&o2g->lock);
	return 0;
}

/* ---- starting and stopping ---- */

/* Returns a socket that listens at this address and port, or -errno. A port
 * with connections of an earlier job in TIME_WAIT can be used; if two processes
 * bind the same port, listen() fails. */
static int listen_port(struct o2g_address *address, u16 port)
{
	const int on = 1;
	int r, fd = socket(address->storage.ss_family,
			   SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	o2g_address_set_port(address, port);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&address->storage, address->length) ||
	    listen(fd, 4096)) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int listen_some(struct o2g_address *address,
		       const struct o2g_settings *s)
{
	u32 count = (u32)s->last_port - s->first_port + 1;
	/* processes of a host begin at different ports */
	u32 first = (u32)getpid() % count;
	int fd = -EADDRINUSE;

	for (u32 i = 0; i < count && fd == -EADDRINUSE; i++)
		fd = listen_port(address,
				 (u16)(s->first_port + (first + i) % count));
	return fd;
}

/* Sets the endpoint's name: an address that others can reach, and the port on
 * which it listens. */
static int name_self(struct o2g *o2g, const struct o2g_address *address,
		     const struct o2g_address *bound)
{
	struct o2g_name port;
	int r = o2g_address_to_name(&port, bound, &o2g->identity.id);

	if (r == 0)
		r = o2g_address_to_name(&o2g->name, address, &o2g->identity.id);
	o2g->name.location.port = port.location.port;
	o2g->identity.location = o2g->name.location;
	return r;
}

static int listen_at(struct o2g *o2g, struct o2g_address *address)
{
	const struct o2g_settings *s = &o2g->settings;
	char text[O2G_ADDRESS_TEXT];
	const int anywhere = o2g_address_everywhere(s->interface);
	struct o2g_address bound = *address;
	int r, fd;

	if (anywhere)
		o2g_address_set_any(&bound);
	fd = listen_some(&bound, s);
	r = fd < 0 ? fd : 0;

	if (r == -EMFILE || r == -ENFILE)
		return o2g_error_set(r,
				     "can't make a socket: %s; raise `ulimit "
				     "-n`",
				     strerror(-r));
	if (r == 0 &&
	    getsockname(fd, (struct sockaddr *)&bound.storage, &bound.length))
		r = -errno;
	if (fd >= 0)
		o2g->opener.listener = fd;
	if (r == 0)
		return name_self(o2g, address, &bound);
	o2g_address_set_port(address, s->first_port);
	return o2g_error_set(
		r, "can't listen on %s to port %u: %s%s",
		o2g_address_text(text, address), s->last_port, strerror(-r),
		r == -EADDRINUSE ? "; give more ports in SKEP_O2G_PORTS" : "");
}

static int open_files(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;
	struct epoll_event event = {.events = EPOLLIN};
	struct o2g_address address;
	int r = o2g_address_choose(&address, o2g->settings.interface);

	if (r == 0)
		r = listen_at(o2g, &address);
	if (r)
		return r;
	opener->epoll = epoll_create1(EPOLL_CLOEXEC);
	opener->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.data.ptr = &opener->event;
	if (opener->epoll < 0 || opener->event < 0 || listen_again(o2g) ||
	    epoll_ctl(opener->epoll, EPOLL_CTL_ADD, opener->event, &event))
		return o2g_error_set(
			-errno, "can't open an endpoint: %s%s", strerror(errno),
			errno == EMFILE ? "; raise `ulimit -n`" : "");
	return 0;
}

void o2g_opener_close_files(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;
	int *file[] = {&opener->epoll, &opener->event, &opener->listener};

	for (struct o2g_try *try = opener->tries; try; try = try->next)
		if (try->socket >= 0)
			close(try->socket);
	for (int i = 0; i < 3; i++) {
		if (*file[i] >= 0)
			close(*file[i]);
		*file[i] = -1;
	}
}

int o2g_opener_start(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;
	pthread_condattr_t attr;
	int r;

	opener->epoll = opener->event = opener->listener = -1;
	opener->last = &opener->tries;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&opener->calm, &attr);
	pthread_condattr_destroy(&attr);
	r = open_files(o2g);
	if (r == 0) {
		r = o2g_spawn(&opener->thread, run_opener, o2g);
		if (r)
			o2g_error_set(r, "can't start a thread: %s",
				      strerror(-r));
	}
	if (r)
		o2g_opener_close_files(o2g);
	return r;
}

int o2g_opener_settle(struct o2g *o2g, int ms)
{
	s64 end = o2g_now_ns() + ms * 1000000ll;
	struct timespec limit = {.tv_sec = (time_t)(end / 1000000000),
				 .tv_nsec = (int)(end % 1000000000)};
	int r = 0;
	u32 unsent;

	pthread_mutex_lock(&o2g->lock);
	unsent = o2g->unsent;
	while (o2g->opener.dials > 0 && r == 0)
		r = pthread_cond_timedwait(&o2g->opener.calm, &o2g->lock,
					   &limit);
	if (o2g->opener.dials == 0 && o2g->unsent == unsent)
		r = 0;
	else
		r = -ETIMEDOUT;
	pthread_mutex_unlock(&o2g->lock);
	return r;
}

void o2g_opener_stop(struct o2g *o2g)
{
	struct o2g_opener *opener = &o2g->opener;

	pthread_mutex_lock(&o2g->lock);
	opener->stop = 1;
	wake_opener(o2g);
	pthread_mutex_unlock(&o2g->lock);
	pthread_join(opener->thread, 0);
	pthread_mutex_lock(&o2g->lock);
	o2g_try_drop_all(o2g);
	pthread_mutex_unlock(&o2g->lock);
	o2g_fork_hold();
	o2g_opener_close_files(o2g);
	o2g_fork_release();
	pthread_cond_destroy(&opener->calm);
}
