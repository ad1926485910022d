// SPDX-License-Identifier: MIT
/*
 * One worker for each core, so that two threads of the program that block do
 * not wait for each other. Each worker checks its core's slot after each
 * doorbell. The first thread watches for calls that are to be cancelled.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proxy.h"

/* A doorbell may be lost while Linux moves its interrupt. */
#define LOOK_MS 1000

struct worker {
	pthread_t thread;
	struct mail_slot *slot;
	struct mail_wakes wakes;
};

static struct worker *workers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over_changed = PTHREAD_COND_INITIALIZER;
static int over;
static u32 over_status;

void sms_serve_end(u32 status)
{
	pthread_mutex_lock(&lock);
	if (!over)
		over_status = status;
	over = 1;
	pthread_cond_broadcast(&over_changed);
	pthread_mutex_unlock(&lock);
}

static int is_over(void)
{
	int answer;

	pthread_mutex_lock(&lock);
	answer = over;
	pthread_mutex_unlock(&lock);
	return answer;
}

/* Waits for the doorbell of a core; before that, sends it an NMI if there are
 * reasons for one. 0: the doorbell rang, or may have; otherwise the image does
 * not run. */
static int await_doorbell(u32 core, u32 *seen, u32 reasons)
{
	struct shimos_wait w = {
		.seen = *seen, .ms = LOOK_MS, .core = core, .reasons = reasons};

	if (ioctl(sms_proxy.device, SHIMOS_IOC_WAIT, &w) < 0 &&
	    errno != ETIMEDOUT && errno != EINTR)
		return -errno;
	*seen = w.seen;
	return 0;
}

static void report_stop(int err)
{
	if (is_over())
		return;
	sms_proxy_say("the partition was stopped: %s", strerror(-err));
	sms_serve_end(126 << 8);
}

/* Adds the reason for an NMI if the core no longer polls. */
static u32 answer_call(struct worker *w)
{
	sms_serve_call(w->slot, &w->wakes);
	__atomic_store_n(&w->slot->state, MAIL_DONE, __ATOMIC_SEQ_CST);
	return __atomic_exchange_n(&w->slot->notify, 0, __ATOMIC_SEQ_CST)
		       ? 1u << MAIL_NMI_ANSWER
		       : 0;
}

static void *worker_thread(void *arg)
{
	struct worker *w = arg;
	u32 seen = 0, core = (u32)(w - workers), reasons = 0;
	int err = 0;

	while (!is_over() && !err) {
		if (!reasons &&
		    __atomic_load_n(&w->slot->state, __ATOMIC_ACQUIRE) ==
			    MAIL_CALL) {
			reasons = answer_call(w);
		} else {
			err = await_doorbell(core, &seen, reasons);
			reasons = 0;
		}
	}
	if (err)
		report_stop(err);
	return NULL;
}

static void *watcher_thread(void *arg)
{
	u64 one = 1;
	u32 seen = 0, i;

	(void)arg;
	while (!is_over() && !await_doorbell(SHIMOS_WAIT_OTHER, &seen, 0)) {
		sms_events_look();
		for (i = 0; i < sms_proxy.cores; i++)
			if (__atomic_exchange_n(&workers[i].slot->cancel, 0,
						__ATOMIC_SEQ_CST) &&
			    write(workers[i].wakes.cancel, &one, sizeof(one)) <
				    0)
				sms_proxy_say("a waiting call cannot be woken");
	}
	return NULL;
}

void sms_serve_child(void)
{
	u64 one = 1;
	u32 i;

	for (i = 0; i < sms_proxy.cores; i++)
		if (write(workers[i].wakes.child, &one, sizeof(one)) < 0)
			sms_proxy_say("a wait for a child cannot be woken");
}

static int event_open(void)
{
	return sms_own_add(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

static int make_workers(void)
{
	u32 i;

	workers = calloc(sms_proxy.cores, sizeof(*workers));
	if (!workers)
		return -ENOMEM;
	for (i = 0; i < sms_proxy.cores; i++) {
		workers[i].slot =
			(struct mail_slot *)(sms_proxy.mail + MAIL_SLOT(i));
		workers[i].wakes.cancel = event_open();
		workers[i].wakes.child = event_open();
		if (workers[i].wakes.cancel < 0 || workers[i].wakes.child < 0)
			return -errno;
	}
	return 0;
}

static int start_workers(void)
{
	pthread_t watcher;
	u32 i;

	for (i = 0; i < sms_proxy.cores; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_thread,
				   &workers[i]))
			return -EAGAIN;
	return pthread_create(&watcher, NULL, watcher_thread, NULL) ? -EAGAIN
								    : 0;
}

int sms_serve(void)
{
	int err = make_workers();

	err = err ? err : sms_events_start();
	err = err ? err : start_workers();
	if (err) {
		sms_proxy_say("no threads for the cores: %s", strerror(-err));
		return 126 << 8;
	}
	pthread_mutex_lock(&lock);
	while (!over)
		pthread_cond_wait(&over_changed, &lock);
	pthread_mutex_unlock(&lock);
	return (int)over_status;
}
