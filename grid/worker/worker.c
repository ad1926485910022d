// SPDX-License-Identifier: MIT
/*
 * A worker's life: open the session, say READY, serve until BYE or the end of
 * the stream.
 */
#define _GNU_SOURCE
#include "grid/include/skep/worker.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "call.h"
#include "order.h"
#include "stream.h"

enum {
	STATUS_USAGE = 2,
	STATUS_SESSION = 3, /* the agent broke the protocol */
	STATUS_MANIFEST = 4,
};

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
	int fd = order_stream(), err;

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
	err = order_open(fd);
	return session_ended(err ? err : serve_session(&m, w));
}
