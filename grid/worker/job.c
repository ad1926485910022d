// SPDX-License-Identifier: MIT
/* Owns the sockets of the job's ranks, and what Initialize was given. */
#define _GNU_SOURCE
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "grid/core/marshal.h"
#include "launcher.h"

#define PROGRAM "./skep-ranks"
#define END_MS 10000 /* for a launcher to end its ranks */

static struct {
	u32 ranks;
	int *rank; /* sockets; NULL: there is no job */
	int listener, children, session;
} job = {.listener = -1, .children = -1};

static struct {
	int given;
	struct ranks_order order;
	u8 *bytes;
} initial;

/* Bytes ------------------------------------------------------------------- */

static int read_rank(int fd, void *to, u64 len)
{
	ssize_t n;

	for (; len; to = (u8 *)to + n, len -= (u64)n) {
		n = read(fd, to, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int send_rank(int fd, const void *bytes, u64 len)
{
	ssize_t n;

	for (; len; bytes = (const u8 *)bytes + n, len -= (u64)n) {
		n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int write_program(const void *bytes, u64 len)
{
	int fd = open(PROGRAM, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	ssize_t n;

	if (fd < 0)
		return -errno;
	for (; len; bytes = (const u8 *)bytes + n, len -= (u64)n) {
		n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			break;
	}
	return close(fd) || len ? -EIO : 0;
}

/* Refusals ----------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int
fail_job(struct job_result *r, u32 code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->text, sizeof(r->text), format, args);
	va_end(args);
	r->code = code;
	return -ECHILD;
}

/* Ending ------------------------------------------------------------------- */

void job_end(int soon)
{
	const struct ranks_order end = {.kind = RANKS_END};
	u32 i;

	for (i = 0; job.rank && i < job.ranks; i++) {
		if (!soon && job.rank[i] >= 0)
			send_rank(job.rank[i], &end, sizeof(end));
	}
	if (!soon)
		launcher_await(END_MS);
	for (i = 0; job.rank && i < job.ranks; i++) {
		if (job.rank[i] >= 0)
			close(job.rank[i]); /* which ends the rank */
	}
	free(job.rank);
	job.rank = NULL;
	if (job.listener >= 0)
		close(job.listener);
	job.listener = -1;
	launcher_end(soon ? END_MS / 10 : END_MS);
}

/* Waiting ------------------------------------------------------------------ */

/*
 * Until one of these n can be read, or with `asking` the session. 0; -ECHILD:
 * the launcher has ended; -EPIPE: the session.
 */
static int await_any(struct pollfd *p, u32 n, int asking)
{
	p[n] = (struct pollfd){job.children, POLLIN, 0};
	p[n + 1] = (struct pollfd){job.session, POLLRDHUP, 0};
	if (asking)
		p[n + 1].events |= POLLIN;
	while (poll(p, n + 2, -1) < 0) {
		if (errno != EINTR)
			return -EPIPE;
	}
	if (p[n + 1].revents & ~POLLIN)
		return -EPIPE;
	if (p[n + 1].revents)
		return 0;
	while (n--) {
		if (p[n].revents)
			return 0;
	}
	return launcher_reap() ? -ECHILD : 0;
}

/* Starting ----------------------------------------------------------------- */

static int open_listener(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX,
				 .sun_path = RANKS_SOCKET};

	unlink(RANKS_SOCKET);
	job.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (job.listener < 0 ||
	    bind(job.listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(job.listener, SKEP_RANKS_MAX))
		return -errno;
	return 0;
}

static int start_launcher(u32 ranks, struct job_result *r)
{
	int err;

	if (!getenv("SKEP_PROGRAM"))
		return fail_job(r, SKEP_E_REFUSED,
				"the node's agent names no program that starts "
				"MPI jobs: update it");
	err = open_listener();
	if (err)
		return fail_job(r, SKEP_E_WORKER,
				"the worker cannot speak with its ranks: %s",
				strerror(-err));
	err = launcher_start(PROGRAM, ranks);
	return err ? fail_job(r, SKEP_E_WORKER,
			      "the worker cannot start `skep mpirun`: %s",
			      strerror(-err))
		   : 0;
}

/* Takes one rank's hello. */
static int admit_rank(u32 ranks, struct job_result *r)
{
	const struct timeval limit = {10, 0};
	struct ranks_hello h;
	int fd = accept4(job.listener, NULL, NULL, SOCK_CLOEXEC), bad;

	if (fd < 0)
		return fail_job(r, SKEP_E_WORKER,
				"a rank cannot be connected: %s",
				strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	bad = read_rank(fd, &h, sizeof(h)) || h.magic != RANKS_MAGIC;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 0},
		   sizeof(limit));
	if (!bad && h.size == ranks && h.rank < ranks && job.rank[h.rank] < 0) {
		job.rank[h.rank] = fd;
		return 0;
	}
	close(fd);
	if (bad)
		return fail_job(r, SKEP_E_WORKER,
				"a rank did not say which "
				"one it is");
	if (h.size == ranks)
		return fail_job(r, SKEP_E_WORKER,
				h.rank < ranks
					? "two ranks say that they are rank %u"
					: "a rank says that it is rank %u, "
					  "which the job does not have",
				h.rank);
	return fail_job(r, SKEP_E_WORKER,
			"rank %u says that the job has %u ranks, not %u: the "
			"node's MPI is not the one of the worker program",
			h.rank, h.size, ranks);
}

static int join_ranks(u32 ranks, struct job_result *r)
{
	struct pollfd p[3];
	u32 joined = 0;
	int err;

	while (joined < ranks) {
		p[0] = (struct pollfd){job.listener, POLLIN, 0};
		err = await_any(p, 1, 0);
		if (err == -ECHILD) {
			job_end(1);
			return fail_job(r, SKEP_E_REFUSED,
					"the node cannot start an MPI job of "
					"%u ranks: %s",
					ranks, launcher_last_line());
		}
		if (!err && p[0].revents) {
			err = admit_rank(ranks, r);
			joined++;
		}
		if (err)
			return err;
	}
	return 0;
}

/* Answers ------------------------------------------------------------------ */

struct answers {
	const struct job_call *call; /* NULL: Initialize, without callbacks */
	struct pollfd *poll;	     /* fd -1: it has answered */
	u32 left;
	u64 most; /* bytes that rank 0 may return */
	u32 gone; /* a rank that ended without a word, or ~0 */
	int over; /* the session */
	int asking;
	struct skep_callback asked; /* of rank 0, and not yet returned */
};

static int take_result(struct answers *a, const struct ranks_answer *answer,
		       u32 i, struct job_result *r)
{
	if (!i)
		r->exec_ns = answer->exec_ns;
	if (!answer->length)
		return 0;
	if (i || answer->length > a->most)
		return fail_job(r, SKEP_E_WORKER,
				"rank %u of %u returned bytes that nobody "
				"asked for",
				i, job.ranks);
	r->bytes = grid_memory_heap.alloc(&grid_memory_heap, answer->length);
	if (!r->bytes)
		return fail_job(r, SKEP_E_WORKER,
				"the worker has no memory for the result");
	r->length = answer->length;
	return read_rank(job.rank[i], r->bytes, r->length);
}

static int take_refusal(const struct ranks_answer *answer, u32 i,
			struct job_result *r)
{
	char text[RANKS_TEXT_MAX];
	u64 n = answer->length;

	if (n >= sizeof(text) || read_rank(job.rank[i], text, n))
		return -EPIPE;
	text[n] = 0;
	return fail_job(r, answer->code, "rank %u of %u: %s", i, job.ranks,
			text);
}

/* Callbacks --------------------------------------------------------------- */

/* Without the session nothing else counts. */
static int end_session(struct answers *a, int err)
{
	a->over = err == -EPIPE;
	return err ? -ECHILD : 0;
}

static int fail_callback(struct job_result *r, int err)
{
	return fail_job(r, SKEP_E_WORKER,
			"a callback of rank 0 of %u cannot be passed on: %s",
			job.ranks, strerror(-err));
}

static int read_callback(struct answers *a, u64 length, u8 **arguments)
{
	u64 rest = length - sizeof(a->asked);
	int err;

	if (a->asking || length < sizeof(a->asked) || rest > SKEP_CALLBACK_MAX)
		return -EPROTO;
	err = read_rank(job.rank[0], &a->asked, sizeof(a->asked));
	if (err)
		return err;
	if (a->asked.length != rest)
		return -EPROTO;
	*arguments = malloc(rest + 1);
	return *arguments ? read_rank(job.rank[0], *arguments, rest) : -ENOMEM;
}

/* -EPIPE: rank 0 is gone; -ECHILD: the call failed, or the session is over. */
static int pass_callback(struct answers *a, u64 length, struct job_result *r)
{
	u8 *arguments = NULL;
	int err = read_callback(a, length, &arguments);

	if (!err) {
		a->asking = 1;
		err = end_session(a, a->call->way->ask(a->call->number,
						       &a->asked, arguments));
	} else if (err != -EPIPE) {
		err = fail_callback(r, err);
	}
	free(arguments);
	return err;
}

/* The session can be read. That rank 0 is gone is found by what it said. */
static int pass_return(struct answers *a, struct job_result *r)
{
	struct ranks_order back = {RANKS_RETURN, a->asked.param, 0, 0};
	u8 *returned = NULL;
	u32 n = 0;
	int err = a->call->way->take(a->call->number, &a->asked, &returned, &n);

	if (err == -EPIPE) {
		free(returned);
		return end_session(a, err);
	}
	a->asking = !err && !returned;
	back.length = n;
	if (returned && !send_rank(job.rank[0], &back, sizeof(back)))
		send_rank(job.rank[0], returned, n);
	free(returned);
	return err ? fail_callback(r, err) : 0;
}

/* The function's end came before its callback's. */
static int fail_left(struct job_result *r)
{
	return r->code ? -ECHILD
		       : fail_job(r, SKEP_E_WORKER,
				  "rank 0 of %u ended the function while the "
				  "master answered it",
				  job.ranks);
}

/* The agent sends RETURN whatever became of the call, and then takes its end.
 */
static int drop_return(struct answers *a)
{
	u8 *returned = NULL;
	u32 n;
	int err = 0;

	while (!err && !returned)
		err = a->call->way->take(a->call->number, &a->asked, &returned,
					 &n);
	free(returned);
	return err == -EPIPE ? err : 0;
}

/* 0: an answer, or the rank is gone; -ECHILD: the call failed. */
static int take_answer(struct answers *a, u32 i, struct job_result *r)
{
	struct ranks_answer answer;
	int err = read_rank(job.rank[i], &answer, sizeof(answer));

	if (!err && answer.asks && !i && a->call) {
		err = pass_callback(a, answer.length, r);
		if (err != -EPIPE)
			return err;
	} else if (!err && answer.code) {
		err = take_refusal(&answer, i, r);
	} else if (!err) {
		err = take_result(a, &answer, i, r);
	}
	if (err == -EPIPE) {
		a->gone = a->gone < i ? a->gone : i;
		err = 0;
	}
	a->poll[i].fd = -1;
	a->left--;
	return err;
}

/*
 * A rank that dies takes the others with it: of all that can be read now, what
 * one has said about its end counts more than an end without a word.
 */
static int await_answers(struct answers *a, struct job_result *r)
{
	u32 i;
	int err = 0;

	while (a->left && a->gone == ~0u) {
		err = await_any(a->poll, job.ranks, a->asking);
		if (err == -ECHILD)
			err = poll(a->poll, job.ranks, 0) > 0 ? 0 : err;
		for (i = 0; i < job.ranks && !err; i++) {
			if (a->poll[i].fd >= 0 && a->poll[i].revents)
				err = take_answer(a, i, r);
		}
		if (!err && a->poll[job.ranks + 1].revents)
			err = pass_return(a, r);
		if (err)
			break;
	}
	if (a->over)
		return -EPIPE;
	if (err == -EPIPE || r->code)
		return err;
	if (a->gone != ~0u)
		return fail_job(r, SKEP_E_WORKER,
				"rank %u of %u ended in the middle of the "
				"function",
				a->gone, job.ranks);
	return err ? fail_job(r, SKEP_E_WORKER,
			      "the job of %u ranks ended in the middle of the "
			      "function",
			      job.ranks)
		   : 0;
}

static int run_order(const struct ranks_order *o, const u8 *bytes,
		     const struct job_call *call, struct job_result *r)
{
	struct answers a = {
		.call = call, .left = job.ranks, .most = o->most, .gone = ~0u};
	u32 i;
	int err;

	a.poll = calloc(job.ranks + 2, sizeof(*a.poll));
	if (!a.poll)
		return fail_job(r, SKEP_E_WORKER, "the worker has no memory");
	/* One that is gone is found by what it said, below. */
	for (i = 0; i < job.ranks; i++) {
		a.poll[i] = (struct pollfd){job.rank[i], POLLIN, 0};
		if (!send_rank(job.rank[i], o, sizeof(*o)))
			send_rank(job.rank[i], bytes, o->length);
	}
	err = await_answers(&a, r);
	free(a.poll);
	if (!a.asking || err == -EPIPE)
		return err;
	job_end(1);
	return drop_return(&a) ? -EPIPE : fail_left(r);
}

/* Calls -------------------------------------------------------------------- */

static int start_job(u32 ranks, struct job_result *r)
{
	u32 i;
	int err;

	job.rank = calloc(ranks, sizeof(*job.rank));
	if (!job.rank)
		return fail_job(r, SKEP_E_WORKER, "the worker has no memory");
	for (i = 0; i < ranks; i++)
		job.rank[i] = -1;
	job.ranks = ranks;
	err = start_launcher(ranks, r);
	if (!err)
		err = join_ranks(ranks, r);
	if (!err && initial.given)
		err = run_order(&initial.order, initial.bytes, NULL, r);
	return err;
}

int job_call(const struct job_call *call, struct job_result *r)
{
	int err = 0;

	memset(r, 0, sizeof(*r));
	if (job.rank && (job.ranks != call->ranks || launcher_reap()))
		job_end(0);
	if (!job.rank)
		err = start_job(call->ranks, r);
	if (!err)
		err = run_order(&call->order, call->bytes, call, r);
	if (!err)
		return 0;
	job_end(1);
	if (r->bytes)
		grid_memory_heap.free(&grid_memory_heap, r->bytes, r->length);
	r->bytes = NULL;
	return err == -EPIPE ? err : 0;
}

void job_set_initial(u32 function, u8 *bytes, u64 length)
{
	if (initial.bytes)
		grid_memory_heap.free(&grid_memory_heap, initial.bytes,
				      initial.order.length +
					      !initial.order.length);
	initial.given = 1;
	initial.order = (struct ranks_order){RANKS_INIT, function, length, 0};
	initial.bytes = bytes;
}

int job_open(int session, const void *program, u64 length)
{
	job.session = session;
	job.children = launcher_open();
	if (job.children < 0)
		return job.children;
	return write_program(program, length);
}
