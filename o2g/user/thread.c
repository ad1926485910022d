// SPDX-License-Identifier: MIT
/*
 * Which thread makes progress. While the program polls or sleeps in the
 * library, it reads and writes the sockets itself. The thread then only checks
 * each millisecond whether it still does, and writes what o2g_link_defer()
 * deferred (PARKED). It checks more rarely while the program naps between polls
 * and nothing arrives (CALM), and waits for a notification while the program
 * sleeps for long (DEEP). If the program does not call, the thread waits for
 * the sockets and does the work (ACTIVE).
 *
 * Only the thread writes the state.
 */
#define _GNU_SOURCE /* ppoll */
#include "engine.h"

#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { PARKED, CALM, DEEP, ACTIVE };

#define DEEP_TICKS 8	    /* ticks of a sleeping program until DEEP */
#define CALM_TICKS 8	    /* ticks with naps until CALM */
#define CALM_NS 8000000ll   /* between two checks while CALM */
#define SHOW_NS 100000000ll /* between two calls of tick() */
#define RETURNS_BEFORE_YIELD                                                   \
	4 /* polls after which the program makes progress again */

static void wake_thread(struct o2g_engine *e)
{
	const u64 one = 1;

	if (write(e->nudge, &one, sizeof(one)) < 0)
		return; /* the counter is full, so it is readable */
}

void o2g_thread_yield(struct o2g_engine *e, int now)
{
	if (__atomic_load_n(&e->state, __ATOMIC_SEQ_CST) != ACTIVE)
		return;
	/* The thread keeps helping a program that polls only rarely. */
	if (__atomic_add_fetch(&e->returns, 1, __ATOMIC_RELAXED) ==
		    RETURNS_BEFORE_YIELD ||
	    now)
		wake_thread(e);
}

void o2g_thread_resume(struct o2g_engine *e)
{
	if (__atomic_load_n(&e->state, __ATOMIC_SEQ_CST) == DEEP)
		wake_thread(e);
}

void o2g_thread_stir(struct o2g_engine *e)
{
	if (__atomic_load_n(&e->state, __ATOMIC_RELAXED) == CALM)
		wake_thread(e);
}

void o2g_thread_stop(struct o2g_engine *e)
{
	__atomic_store_n(&e->stop, 1, __ATOMIC_SEQ_CST);
	wake_thread(e);
	pthread_join(e->thread, 0);
}

/* Whether data that kick() defers is written within a millisecond. Data that
 * was deferred meanwhile is written before the thread sleeps for longer. */
static void set_ticks(struct o2g_engine *e, int ticks)
{
	__atomic_store_n(&e->ticks, ticks, __ATOMIC_SEQ_CST);
}

static void flush_sends(struct o2g_engine *e)
{
	pthread_mutex_lock(&e->lock);
	e->burst++;
	o2g_engine_unlock(e);
}

static void set_state(struct o2g_engine *e, int state)
{
	__atomic_store_n(&e->state, state, __ATOMIC_SEQ_CST);
	set_ticks(e, state == PARKED);
	if (state == CALM || state == DEEP)
		flush_sends(e);
}

static u64 count_drives(struct o2g_engine *e)
{
	return __atomic_load_n(&e->drives, __ATOMIC_SEQ_CST);
}

static int thread_stopping(struct o2g_engine *e)
{
	return __atomic_load_n(&e->stop, __ATOMIC_SEQ_CST);
}

static s64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (s64)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum { TIMED_OUT, SOCKETS, NUDGED };

/* Waits for a notification, and if requested for the sockets; ns < 0: without
 * limit. */
static int wait_events(struct o2g_engine *e, int sockets, s64 ns)
{
	struct pollfd file[] = {{.fd = e->nudge, .events = POLLIN},
				{.fd = e->epoll, .events = POLLIN}};
	struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (int)(ns % 1000000000)};
	u64 count;

	if (ppoll(file, sockets ? 2 : 1, ns < 0 ? 0 : &limit, 0) <= 0)
		return TIMED_OUT;
	if (!file[0].revents)
		return SOCKETS;
	return read(e->nudge, &count, sizeof(count)) > 0 ? NUDGED : SOCKETS;
}

/* When the rare work was done last. Kept across states: a program that polls
 * rarely moves the thread from state to state before any lasts long. */
struct done {
	s64 looked, shown;
};

static void update_page(struct o2g_engine *e, struct done *last)
{
	if (e->tick)
		e->tick(e->ctx);
	last->shown = now_ns();
}

static void check_links(struct o2g_engine *e, struct done *last)
{
	pthread_mutex_lock(&e->lock);
	o2g_link_look(e);
	o2g_engine_unlock(e);
	last->looked = now_ns();
}

static void do_rare_work(struct o2g_engine *e, struct done *last)
{
	const s64 now = now_ns();

	if (now - last->looked >= O2G_LOOK_NS)
		check_links(e, last);
	if (now - last->shown >= SHOW_NS)
		update_page(e, last);
}

/* Sleeps until the program, which sleeps too, wakes and notifies the thread. */
static void sleep_deep(struct o2g_engine *e, struct done *last)
{
	update_page(e, last);
	set_state(e, DEEP);
	/* It may have woken before it could see DEEP. */
	if (__atomic_load_n(&e->sleepers, __ATOMIC_SEQ_CST) &&
	    !thread_stopping(e))
		wait_events(e, 0, O2G_LOOK_NS);
	set_state(e, PARKED);
}

struct watch {
	u64 drives, naps; /* the engine's counts at the last tick */
	/* consecutive ticks with naps, and during a single sleep */
	int calm, asleep;
};

/* Returns whether the program still calls; runs at each tick. */
static int is_there(struct o2g_engine *e, struct watch *watch)
{
	const struct watch last = *watch;

	watch->drives = count_drives(e);
	watch->naps = __atomic_load_n(&e->naps, __ATOMIC_RELAXED);
	/* One call that moves many bytes takes longer than a tick. */
	if (watch->drives == last.drives &&
	    !__atomic_load_n(&e->driven, __ATOMIC_RELAXED)) {
		watch->asleep++;
		return __atomic_load_n(&e->sleepers, __ATOMIC_SEQ_CST) > 0;
	}
	watch->asleep = 0;
	watch->calm = watch->naps == last.naps ? 0 : last.calm + 1;
	return 1;
}

/* Waits, tick by tick, until the program no longer calls. */
static void park_thread(struct o2g_engine *e, struct done *last)
{
	struct watch watch = {.drives = count_drives(e)};

	set_state(e, PARKED);
	while (!thread_stopping(e)) {
		const int calm = watch.calm >= CALM_TICKS;

		do_rare_work(e, last);
		set_state(e, calm ? CALM : PARKED);
		if (wait_events(e, 0, calm ? CALM_NS : O2G_TAKEOVER_NS) ==
		    NUDGED) {
			watch.calm = 0;
			continue;
		}
		if (__atomic_load_n(&e->deferred, __ATOMIC_RELAXED))
			flush_sends(e);
		if (!is_there(e, &watch))
			return;
		if (watch.asleep >= DEEP_TICKS) {
			sleep_deep(e, last);
			watch.asleep = 0;
		}
	}
}

/* Does the pending work. Returns whether the program has submitted anything
 * since the last call; then more may follow soon. */
static int serve_once(struct o2g_engine *e, u64 *kicks)
{
	const u64 last = *kicks;

	*kicks = __atomic_load_n(&e->kicks, __ATOMIC_RELAXED);
	set_ticks(e, *kicks != last);
	pthread_mutex_lock(&e->lock);
	e->burst++;
	o2g_engine_collect(e);
	o2g_engine_unlock(e);
	return *kicks != last;
}

/* Makes progress until the program calls again. */
static void serve_until_back(struct o2g_engine *e, struct done *last)
{
	u64 kicks = __atomic_load_n(&e->kicks, __ATOMIC_RELAXED);
	s64 wait = SHOW_NS;

	__atomic_store_n(&e->returns, 0, __ATOMIC_RELAXED);
	set_state(e, ACTIVE);
	while (!thread_stopping(e)) {
		const int ticks = serve_once(e, &kicks);
		const int why =
			wait_events(e, 1, ticks ? O2G_TAKEOVER_NS : wait);
		const int idle = why == TIMED_OUT && !ticks;

		if (why == NUDGED)
			return;
		if (idle)
			update_page(e, last);
		do_rare_work(e, last);
		wait = idle ? O2G_LOOK_NS : SHOW_NS;
	}
}

void *o2g_thread_run(void *engine)
{
	struct o2g_engine *e = engine;
	struct done last = {.looked = now_ns()};

	while (!thread_stopping(e)) {
		park_thread(e, &last);
		serve_until_back(e, &last);
	}
	return 0;
}
