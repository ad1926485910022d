// SPDX-License-Identifier: MIT
/*
 * The operations of the user engine, which the library calls. See engine.h for
 * what the lock guards, and thread.c for which thread makes progress when.
 */
#define _GNU_SOURCE /* ppoll */
#include "atomic.h"
#include "engine.h"

#include <o2g/core/atomic.h>

#include <o2g/lib/available.h>
#include <o2g/lib/spawn.h>

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32      /* events read at once */
#define HOT_DRIVES 16 /* drives in a row that check only the hot link */
/* Bytes of long bodies that one call reads: with 256 KiB a byte took twice as
 * long over loopback. */
#define AHEAD 0x100000

#define SPARE_NS 100000000 /* how long the value of `spare` is used */

/* ---- callbacks of the core ---- */

static void *host_alloc(void *ctx, u64 size)
{
	(void)ctx;
	return calloc(1, size);
}

static void host_free(void *ctx, void *memory, u64 size)
{
	(void)ctx;
	(void)size;
	free(memory);
}

static u8 *copy_end(struct o2g_engine *e, const struct o2g_piece *piece)
{
	if (piece->place == O2G_PLACE_CORE)
		return piece->core;
	if (piece->place == O2G_PLACE_AREA)
		return (u8 *)e->area + piece->address;
	return (u8 *)(size_t)piece->address;
}

static int host_copy(void *ctx, struct o2g_copy *job)
{
	if (job->atomic) {
		o2g_atomic_perform(
			job->atomic,
			job->to.length / o2g_atomic_size(job->atomic),
			copy_end(ctx, &job->to), copy_end(ctx, &job->from),
			copy_end(ctx, &job->result));
		return 0;
	}
	if (job->to.length > 0)
		memmove(copy_end(ctx, &job->to), copy_end(ctx, &job->from),
			job->to.length);
	return 0;
}

static int host_store(void *ctx, u64 address, const u8 *from, u64 length)
{
	(void)ctx;
	memcpy((void *)(size_t)address, from, length);
	return 0;
}

/* A quarter of what is available, because several ranks may ask at the same
 * time. */
static u64 host_spare(void *ctx)
{
	struct o2g_engine *e = ctx;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	if (t.tv_sec == e->spare_at.tv_sec &&
	    t.tv_nsec - e->spare_at.tv_nsec < SPARE_NS)
		return e->spare;
	e->spare_at = t;
	e->spare = o2g_memory_available() / 4;
	return e->spare;
}

static void host_completed(void *ctx)
{
	(void)ctx; /* o2g_link_settle() asks the core */
}

/* ---- creating and destroying ---- */

/* Twice what may be deferred, since blocks are powers of two. */
static u64 slab_size(const struct o2g_limits *limits)
{
	if (!limits->slab_message)
		return 0;
	return limits->unexpected < O2G_AREA_PART / 2 ? 2 * limits->unexpected
						      : O2G_AREA_PART;
}

static int map_area(struct o2g_engine *e, const struct o2g_engine_options *o)
{
	const u64 slab = slab_size(&o->limits);
	int r = o2g_area_size(o->sq_entries, o->cq_entries, 0, slab,
			      &e->area_size);
	void *area;

	if (r)
		return r;
	area = mmap(0, e->area_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -errno;
	e->area = area;
	/* A child of fork() has no engine thread, so it gets no copy. */
	madvise(area, e->area_size, MADV_DONTFORK);
	return o2g_area_format(area, o->sq_entries, o->cq_entries, 0, slab);
}

static int open_files(struct o2g_engine *e)
{
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return e->epoll < 0 || e->wake < 0 || e->nudge < 0 ? -errno : 0;
}

static void close_files(struct o2g_engine *e)
{
	int *file[] = {&e->epoll, &e->wake, &e->nudge};

	for (u32 i = 0; i < e->link_room; i++)
		if (e->links[i])
			close(e->links[i]->socket);
	for (int i = 0; i < 3; i++) {
		if (*file[i] >= 0)
			close(*file[i]);
		*file[i] = -1;
	}
}

static void free_engine(struct o2g_engine *e)
{
	pthread_mutex_lock(&e->lock);
	while (e->core && e->link_count > 0)
		for (u32 i = 0; i < e->link_room; i++)
			if (e->links[i])
				o2g_link_end(e, e->links[i], -ESHUTDOWN);
	pthread_mutex_unlock(&e->lock);
	if (e->core)
		o2g_core_free(e->core);
	close_files(e);
	if (e->area)
		munmap(e->area, e->area_size);
	free(e->links);
	free(e->stage);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static int make_core(struct o2g_engine *e, const struct o2g_engine_options *o)
{
	struct o2g_limits limits = o->limits;
	const struct o2g_host host = {
		.ctx = e,
		.alloc = host_alloc,
		.free = host_free,
		.want_tx = o2g_link_want,
		.copy = host_copy,
		/* With a slab, tests cover what the kernel engine does. */
		.store = limits.slab_message ? 0 : host_store,
		.completed = host_completed,
		.spare = host_spare};

	limits.ahead = AHEAD;
	limits.light_hash = 1;
	return o2g_core_make(&e->core, &host, &limits, e->area);
}

static int user_open(struct o2g_engine **out,
		     const struct o2g_engine_options *options,
		     struct o2g_area **area)
{
	struct o2g_engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return -ENOMEM;
	pthread_mutex_init(&e->lock, 0);
	e->epoll = e->wake = e->nudge = -1;
	e->tick = options->tick;
	e->ctx = options->ctx;
	e->stage = malloc(O2G_STAGE_SIZE);
	r = e->stage ? open_files(e) : -ENOMEM;
	if (r == 0)
		r = map_area(e, options);
	if (r == 0)
		r = make_core(e, options);
	if (r == 0)
		r = o2g_spawn(&e->thread, o2g_thread_run, e);
	if (r) {
		free_engine(e);
		return r;
	}
	*area = e->area;
	*out = e;
	return 0;
}

static void user_close(struct o2g_engine *e)
{
	o2g_thread_stop(e);
	free_engine(e);
}

/* ---- locking and unlocking ---- */

static void wake_thread(struct o2g_engine *e)
{
	const u64 one = 1;

	if (!__atomic_exchange_n(&e->rung, 1, __ATOMIC_SEQ_CST) &&
	    write(e->wake, &one, sizeof(one)) < 0)
		return; /* the counter is full, so it is readable */
}

static void user_calm(struct o2g_engine *e)
{
	u64 count;

	if (__atomic_load_n(&e->rung, __ATOMIC_SEQ_CST) &&
	    read(e->wake, &count, sizeof(count)) >= 0)
		__atomic_store_n(&e->rung, 0, __ATOMIC_SEQ_CST);
}

static void unlock_engine(struct o2g_engine *e, int defer)
{
	int wake;

	o2g_link_settle(e, defer);
	wake = e->ring;
	e->ring = 0;
	__atomic_store_n(&e->driven, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&e->lock);
	if (wake)
		wake_thread(e);
}

void o2g_engine_unlock(struct o2g_engine *e)
{
	unlock_engine(e, 0);
}

int o2g_engine_collect(struct o2g_engine *e)
{
	struct epoll_event event[BATCH];
	int n = epoll_wait(e->epoll, event, BATCH, 0);

	o2g_engine_assert_locked(e);
	for (int i = 0; i < n; i++) {
		u32 slot = (u32)event[i].data.u64;
		u32 number = (u32)(event[i].data.u64 >> 32);
		struct o2g_link *link = o2g_link_find(e, slot, number);

		if (link && (event[i].events & EPOLLOUT))
			o2g_link_write(e, link);
		link = o2g_link_find(e, slot, number);
		if (link && (event[i].events & ~(u32)EPOLLOUT))
			o2g_link_read(e, link);
	}
	e->cold = 0;
	return n > 0 ? n : 0;
}

/* ---- operations ---- */

static int user_peer(struct o2g_engine *e, u32 peer, int self)
{
	int r;

	pthread_mutex_lock(&e->lock);
	r = o2g_core_peer(e->core, peer, self);
	o2g_engine_unlock(e);
	return r;
}

static void user_lost(struct o2g_engine *e, u32 peer, int error)
{
	pthread_mutex_lock(&e->lock);
	o2g_core_lost(e->core, peer, error);
	o2g_engine_unlock(e);
}

static int user_attach(struct o2g_engine *e, int socket, u32 peer,
		       u32 credit_out, u32 credit_in,
		       const struct o2g_keys *keys, u32 *link)
{
	int r;

	pthread_mutex_lock(&e->lock);
	r = o2g_link_attach(e, socket, peer, credit_out, credit_in, keys, link);
	o2g_engine_unlock(e);
	return r;
}

static int user_identify(struct o2g_engine *e, u32 number, u32 peer)
{
	int r = -ENOTCONN; /* the link may have ended meanwhile */

	pthread_mutex_lock(&e->lock);
	for (u32 i = 0; i < e->link_room; i++)
		if (e->links[i] && e->links[i]->number == number)
			r = o2g_conn_name(e->links[i]->conn, peer);
	o2g_engine_unlock(e);
	return r;
}

static int user_region_add(struct o2g_engine *e,
			   const struct o2g_region_options *options)
{
	int r;

	pthread_mutex_lock(&e->lock);
	r = o2g_region_add(e->core, options);
	o2g_engine_unlock(e);
	return r;
}

/* No access is in progress, because bytes are only moved with the lock held. */
static int user_region_remove(struct o2g_engine *e, u64 key)
{
	int r;

	pthread_mutex_lock(&e->lock);
	r = o2g_region_remove(e->core, key);
	o2g_engine_unlock(e);
	return r;
}

static int user_kick(struct o2g_engine *e)
{
	int r;

	pthread_mutex_lock(&e->lock);
	r = o2g_core_consume(e->core);
	__atomic_add_fetch(&e->kicks, 1, __ATOMIC_RELAXED);
	unlock_engine(e, __atomic_load_n(&e->ticks, __ATOMIC_SEQ_CST) &&
				 o2g_link_defer(e));
	o2g_thread_stir(e);
	return r < 0 ? r : 0;
}

static int user_drive(struct o2g_engine *e)
{
	u64 got = 0;

	__atomic_add_fetch(&e->drives, 1, __ATOMIC_SEQ_CST);
	o2g_thread_yield(e, 0);
	if (pthread_mutex_trylock(&e->lock))
		return 0; /* another thread makes progress */
	__atomic_store_n(&e->driven, 1, __ATOMIC_RELAXED);
	e->burst++;
	/* A read without data costs twice as much as epoll_wait(), so it is
	 * only used if there is one connection. */
	if (e->link_count == 1 && e->hot && !e->hot->blocked)
		got = o2g_link_read(e, e->hot);
	if ((!got && (e->link_count > 1 || e->stalled)) ||
	    ++e->cold >= HOT_DRIVES)
		got += (u64)o2g_engine_collect(e);
	o2g_engine_unlock(e);
	if (got > 0)
		o2g_thread_stir(e);
	return got > 0;
}

/* Otherwise a thread that is always first to serve a message would never be
 * asked to yield, and each message would wake it. */
static void user_polled(struct o2g_engine *e)
{
	o2g_thread_yield(e, 0);
}

static int user_sleep(struct o2g_engine *e, u64 us)
{
	struct pollfd file[] = {{.fd = e->epoll, .events = POLLIN},
				{.fd = e->wake, .events = POLLIN}};
	struct timespec limit = {.tv_sec = (time_t)(us / 1000000),
				 .tv_nsec = (s32)(us % 1000000) * 1000};
	int n, error;

	__atomic_add_fetch(&e->naps, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);
	o2g_thread_yield(e, 1);
	n = ppoll(file, 2, &limit, 0);
	error = n < 0 ? -errno : 0;
	__atomic_add_fetch(&e->drives, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&e->sleepers, 1, __ATOMIC_SEQ_CST);
	o2g_thread_resume(e);
	return error;
}

static int user_descriptor(struct o2g_engine *e)
{
	return e->wake;
}

/* Whether a link has unacknowledged bytes, or a BYE that is not sent yet. */
static int has_unfinished(struct o2g_engine *e)
{
	int waiting = 0;

	for (u32 i = 0; i < e->link_room; i++) {
		struct o2g_link *link = e->links[i];
		int bytes = 0;

		if (!link || link->broken)
			continue;
		ioctl(link->socket, SIOCOUTQ, &bytes);
		waiting |= bytes > 0 || !link->ended;
	}
	return waiting;
}

static s64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (s64)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The stream may only be closed once the peer has received everything: data
 * that it still sends would make our kernel reset it. */
static int user_finish(struct o2g_engine *e, int ms)
{
	s64 end = now_ms() + ms;
	int waiting;

	pthread_mutex_lock(&e->lock);
	o2g_core_consume(e->core);
	for (u32 i = 0; i < e->link_room; i++) {
		if (!e->links[i])
			continue;
		o2g_conn_bye(e->links[i]->conn);
		o2g_link_want(e, e->links[i]->conn);
	}
	for (;;) {
		struct pollfd file = {.fd = e->epoll, .events = POLLIN};

		o2g_link_settle(e, 0);
		o2g_engine_collect(e);
		o2g_link_settle(e, 0);
		waiting = has_unfinished(e);
		pthread_mutex_unlock(&e->lock);
		if (!waiting || now_ms() >= end)
			break;
		poll(&file, 1, 1); /* acknowledgements cause no event */
		pthread_mutex_lock(&e->lock);
	}
	return waiting ? -ETIMEDOUT : 0;
}

static void user_counts(struct o2g_engine *e, struct o2g_counts *counts)
{
	pthread_mutex_lock(&e->lock);
	o2g_core_counts(e->core, counts);
	pthread_mutex_unlock(&e->lock);
}

static void user_links(struct o2g_engine *e, struct o2g_link_counts *counts)
{
	pthread_mutex_lock(&e->lock);
	o2g_link_count(e, counts);
	pthread_mutex_unlock(&e->lock);
}

static void user_fork(struct o2g_engine *e, enum o2g_fork when)
{
	if (when == O2G_FORK_PREPARE)
		pthread_mutex_lock(&e->lock);
	else
		pthread_mutex_unlock(&e->lock);
	if (when == O2G_FORK_CHILD)
		close_files(e);
}

const struct o2g_engine_ops o2g_user_engine = {
	.name = "user",
	.open = user_open,
	.close = user_close,
	.peer = user_peer,
	.lost = user_lost,
	.attach = user_attach,
	.identify = user_identify,
	.region_add = user_region_add,
	.region_remove = user_region_remove,
	.kick = user_kick,
	.drive = user_drive,
	.polled = user_polled,
	.sleep = user_sleep,
	.wake = wake_thread,
	.calm = user_calm,
	.descriptor = user_descriptor,
	.finish = user_finish,
	.counts = user_counts,
	.links = user_links,
	.fork = user_fork,
};
