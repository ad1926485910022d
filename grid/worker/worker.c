// SPDX-License-Identifier: MIT
/*
 * A worker's life: open the session, say READY, serve until BYE or the end of
 * the stream. Owns the thread that says PING while user code runs.
 */
#define _GNU_SOURCE
#include "grid/include/skep/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "stream.h"

enum {
	STATUS_USAGE = 2,
	STATUS_SESSION = 3, /* the agent broke the protocol */
	STATUS_MANIFEST = 4,
};

/* It checks every few seconds instead of being notified: a call that takes
 * microseconds does not pay for it. */
static void *ping_thread(void *none)
{
	const struct timespec pause = {SKEP_PING_SECONDS, 0};

	for (;;) {
		nanosleep(&pause, NULL);
		if (call_busy())
			stream_ping();
	}
	return none;
}

static int start_pinging(void)
{
	pthread_attr_t a;
	pthread_t t;
	int err;

	err = pthread_attr_init(&a);
	if (!err)
		err = pthread_attr_setstacksize(&a, 0x10000);
	if (!err)
		err = pthread_create(&t, &a, ping_thread, NULL);
	return err;
}

/* The number of the descriptor, or -1. */
static int stream_number(void)
{
	const char *text = getenv("SKEP_STREAM");
	char *end;
	long n;

	if (!text || !*text)
		return -1;
	n = strtol(text, &end, 10);
	return *end || n < 3 || n > 0xffff ? -1 : (int)n;
}

/* What user code prints goes where people see it, line by line. */
static void turn_output(void)
{
	dup2(2, 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static int serve_session(const struct grid_module *m,
			 const struct skep_worker *w)
{
	struct skep_frame f;
	int err;

	err = call_ready(m);
	while (!err) {
		err = stream_next(&f);
		if (err)
			break;
		if (f.type == SKEP_CALL)
			err = call_run(m, w, &f);
		else if (f.type == SKEP_INIT)
			err = call_initialize(m, w, &f);
		else
			err = -EPROTO;
	}
	return err;
}

static int session_ended(int err)
{
	if (err == STREAM_ENDED)
		return 0;
	fprintf(stderr, "worker: the session with the agent ended: %s\n",
		stream_why());
	return STATUS_SESSION;
}

int skep_worker_main(const struct skep_worker *w)
{
	struct grid_module m;
	const char *why;
	int fd = stream_number(), err;

	if (fd < 0) {
		fprintf(stderr, "This is a worker program of skep; it does "
				"nothing by itself.\nStart a program that "
				"calls it: skep run -- ./master\n");
		return STATUS_USAGE;
	}
	if (grid_module_open(&m, w->manifest, w->length, &why)) {
		fprintf(stderr, "worker: %s\n", why);
		return STATUS_MANIFEST;
	}
	turn_output();
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	err = stream_open(fd);
	if (!err)
		err = start_pinging() ? -EAGAIN : 0;
	return session_ended(err ? err : serve_session(&m, w));
}
