// SPDX-License-Identifier: MIT
/*
 * The worker program of a module whose functions run in MPI jobs: serves the
 * session with the agent, and lets the ranks of the job do the calls. The
 * functions themselves are in the ranks' program.
 */
#define _GNU_SOURCE
#include "grid/include/skep/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ask.h"
#include "base/sha256.h"
#include "call.h"
#include "job.h"
#include "order.h"
#include "stream.h"

#define NR_BEE 0xBEE

static char unable[256]; /* why no job can run here; "": one can */

static int refuse_unable(u64 call)
{
	return order_refuse(call, SKEP_E_REFUSED, unable);
}

/* Calls -------------------------------------------------------------------- */

/* The number is the first scalar of the arguments. 0: it is no number of ranks.
 */
static u32 ranks_of(const struct skep_function *f, const u8 *bytes, u64 length)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	s64 ranks = 0;

	if (!(f->flags & SKEP_FUNCTION_RANKS))
		return 1;
	if (length < sizeof(ranks))
		return 0;
	memcpy(&ranks, bytes, sizeof(ranks));
	if (!ranks)
		ranks = processors < 1		      ? 1
			: processors > SKEP_RANKS_MAX ? SKEP_RANKS_MAX
						      : processors;
	return ranks < 0 || ranks > SKEP_RANKS_MAX ? 0 : (u32)ranks;
}

static int send_result(u64 call, const struct job_result *r)
{
	static const struct skep_proof none; /* not under bee */
	struct order_sink s;
	int err = order_put_result(&s, call, r->length, r->exec_ns, &none);

	if (!err)
		err = order_put(&s, r->bytes, r->length, 1);
	return err ? err : stream_flush();
}

/* Callbacks of rank 0: see struct job_way. */

static int ask_master(u64 call, const struct skep_callback *head,
		      const u8 *arguments)
{
	int err = stream_frame(SKEP_CALLBACK, 0, call,
			       (u32)sizeof(*head) + head->length);

	if (!err)
		err = stream_put(head, sizeof(*head), 0);
	if (!err)
		err = stream_put(arguments, head->length, 1);
	if (!err)
		err = stream_flush();
	return err ? -EPIPE : 0;
}

static int take_return(u64 call, const struct skep_callback *head,
		       u8 **returned, u32 *length)
{
	struct skep_frame f;
	int shown = 0, err = stream_try(&f, &shown);

	if (!err && !shown)
		return 0;
	if (!err)
		err = ask_return(call, head, &f);
	if (err)
		return -EPIPE;
	*length = stream_left();
	*returned = malloc(*length + 1ul);
	if (!*returned)
		return -ENOMEM;
	return stream_read(*returned, *length) ? -EPIPE : 0;
}

static const struct job_way to_master = {ask_master, take_return};

static int run_job(const struct skep_function *f, u64 call,
		   const struct skep_call *order, const u8 *bytes)
{
	struct job_call job = {
		ranks_of(f, bytes, order->length),
		{RANKS_CALL, order->function, order->length, order->result},
		bytes,
		call,
		&to_master};
	char text[RANKS_TEXT_MAX + SKEP_NAME_MAX + 8];
	struct job_result r;
	int err;

	if (!job.ranks) {
		snprintf(text, sizeof(text),
			 "%s: a job has 1 to %d ranks, or 0 for one on each "
			 "processor of the node",
			 f->name, SKEP_RANKS_MAX);
		return order_refuse(call, SKEP_E_ARGUMENTS, text);
	}
	order_set_busy(1);
	err = job_call(&job, &r);
	order_set_busy(0);
	if (err)
		return STREAM_ENDED;
	if (r.code) {
		snprintf(text, sizeof(text), "%s: %s", f->name, r.text);
		return order_refuse(call, r.code, text);
	}
	err = send_result(call, &r);
	if (r.bytes)
		grid_memory_heap.free(&grid_memory_heap, r.bytes, r.length);
	return err;
}

static int serve_call(const struct grid_module *m, const struct skep_frame *f)
{
	struct grid_memory *memory = &grid_memory_heap;
	struct order_source s;
	struct skep_call order;
	u8 *bytes = NULL;
	u64 room;
	int err = order_read_call(f, &order, &s);

	if (err)
		return err;
	room = order.length + !order.length;
	if (!unable[0] && call_known(m, order.function, 0))
		bytes = memory->alloc(memory, room);
	err = order_take(&s, bytes, order.length);
	if (!err)
		err = order_drop_rest(&s);
	if (err)
		return err;
	if (unable[0])
		return refuse_unable(f->call);
	if (!call_known(m, order.function, 0))
		return order_refuse(f->call, SKEP_E_NO_FUNCTION,
				    "the module has no function of this "
				    "number that can be called");
	if (!bytes)
		return order_refuse(f->call, SKEP_E_WORKER,
				    "the worker has no memory for the "
				    "arguments");
	err = run_job(&m->function[order.function], f->call, &order, bytes);
	memory->free(memory, bytes, room);
	return err;
}

/* Initialize --------------------------------------------------------------- */

/* 0, or a negative errno; -EBADMSG: it is not what the digest says. */
static int read_initial(const struct skep_init *i, const char *path, u8 *bytes)
{
	static const u8 none[32];
	struct skep_sha256 sum;
	u8 digest[32];
	int fd = order_open_data(path), err;

	if (fd < 0)
		return fd;
	err = order_read_data(fd, bytes, i->length, 0);
	close(fd);
	if (err || !memcmp(i->digest, none, sizeof(none)))
		return err;
	skep_sha256_init(&sum);
	skep_sha256_update(&sum, bytes, i->length);
	skep_sha256_final(&sum, digest);
	return memcmp(digest, i->digest, sizeof(digest)) ? -EBADMSG : 0;
}

/* Each job gets it first, so a wrong argument is found by the first call. */
static int serve_initialize(const struct grid_module *m,
			    const struct skep_frame *f)
{
	static char path[ORDER_PATH_MAX];
	struct skep_init i;
	char text[128];
	u8 *bytes;
	int err = order_read_init(f, &i, path);

	if (err)
		return err;
	if (!call_known(m, i.function, 1))
		return order_refuse(0, SKEP_E_NO_FUNCTION,
				    "the module has no such Initialize");
	bytes = grid_memory_heap.alloc(&grid_memory_heap, i.length + !i.length);
	err = bytes ? read_initial(&i, path, bytes) : -ENOMEM;
	if (!err) {
		job_set_initial(i.function, bytes, i.length);
		return call_ready(m);
	}
	if (bytes)
		grid_memory_heap.free(&grid_memory_heap, bytes,
				      i.length + !i.length);
	snprintf(text, sizeof(text),
		 "the data of Initialize cannot be read: %s", strerror(-err));
	return order_refuse(
		0, err == -EBADMSG ? SKEP_E_DIGEST : SKEP_E_INTERNAL, text);
}

/* A life ------------------------------------------------------------------- */

static int serve_session(const struct grid_module *m)
{
	struct skep_frame f;
	int err = call_ready(m);

	while (!err) {
		err = stream_next(&f);
		if (err)
			break;
		if (f.type == SKEP_CALL)
			err = serve_call(m, &f);
		else if (f.type == SKEP_INIT)
			err = serve_initialize(m, &f);
		else
			err = -EPROTO;
	}
	return err;
}

static void open_jobs(int session, const void *program, u64 length)
{
	int err;

	if (syscall(NR_BEE, 0L) == NR_BEE) {
		snprintf(unable, sizeof(unable),
			 "the node runs programs under bee, which cannot run "
			 "MPI jobs: let them run on a Linux node that joined "
			 "without bee");
		return;
	}
	err = job_open(session, program, length);
	if (err)
		snprintf(unable, sizeof(unable),
			 "the worker cannot write its program of ranks: %s",
			 strerror(-err));
}

int skep_ranks_main(const struct skep_worker *w, const void *program,
		    unsigned long long length)
{
	struct grid_module m;
	const char *why;
	int fd = order_stream(), err;

	if (fd < 0)
		return skep_worker_main(w); /* which says what it is */
	if (grid_module_open(&m, w->manifest, w->length, &why)) {
		fprintf(stderr, "worker: %s\n", why);
		return 4;
	}
	open_jobs(fd, program, length);
	err = order_open(fd);
	if (!err)
		err = serve_session(&m);
	job_end(err != STREAM_ENDED);
	if (err == STREAM_ENDED)
		return 0;
	fprintf(stderr, "worker: the session with the agent ended: %s\n",
		stream_why());
	return 3;
}
