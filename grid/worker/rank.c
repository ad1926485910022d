// SPDX-License-Identifier: MIT
/*
 * A rank of an MPI job that serves the calls of a module: takes the arguments
 * from the front, runs the function, and answers. Owns the socket, which the
 * main thread reads and writes; the second thread only waits for its end. MPI
 * itself is the stub's and the user's.
 */
#define _GNU_SOURCE
#include "ranks.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "call.h"
#include "callback.h"
#include "texts.h"

static int front = -1;
static volatile sig_atomic_t
	answering; /* a function runs: its end is still to be said */

/* The socket --------------------------------------------------------------- */

/* 0, or -EPIPE: the front is gone. */
static int read_front(void *to, u64 len)
{
	ssize_t n;

	for (; len; to = (u8 *)to + n, len -= (u64)n) {
		n = read(front, to, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int write_front(const void *bytes, u64 len)
{
	ssize_t n;

	for (; len; bytes = (const u8 *)bytes + n, len -= (u64)n) {
		n = send(front, bytes, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return -EPIPE;
	}
	return 0;
}

static int send_answer(u32 code, u64 length, u64 exec_ns)
{
	struct ranks_answer a = {code, 0, length, exec_ns};

	return write_front(&a, sizeof(a));
}

static int send_refusal(u32 code, const char *text)
{
	int err = send_answer(code, strlen(text), 0);

	return err ? err : write_front(text, strlen(text));
}

/* Ends -------------------------------------------------------------------- */

/* A function may run for hours, and without the front nobody wants its end. */
static void *watch_front(void *none)
{
	struct pollfd p = {front, POLLRDHUP, 0};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	_exit(1);
	return none;
}

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
#define DEADLY (sizeof(deadly) / sizeof(deadly[0]))
static struct sigaction before[DEADLY];

/* Only calls that signal-safety(7) allows. */
static void say_signal(int number)
{
	static char text[] = "it was ended by signal 00";
	size_t i;

	if (answering) {
		answering = 0;
		text[sizeof(text) - 3] = (char)('0' + number / 10);
		text[sizeof(text) - 2] = (char)('0' + number % 10);
		send_refusal(SKEP_E_WORKER, text);
	}
	for (i = 0; i < DEADLY; i++)
		sigaction(deadly[i], &before[i], NULL);
	raise(number);
}

static void say_exit(void)
{
	if (answering)
		send_refusal(SKEP_E_WORKER, "it called exit");
	answering = 0;
}

/* MPI has its own handlers, which run after these. */
static int watch_ends(void)
{
	struct sigaction act;
	pthread_t thread;
	size_t i;

	memset(&act, 0, sizeof(act));
	act.sa_handler = say_signal;
	for (i = 0; i < DEADLY; i++)
		sigaction(deadly[i], &act, &before[i]);
	atexit(say_exit);
	return pthread_create(&thread, NULL, watch_front, NULL);
}

/* Orders ------------------------------------------------------------------ */

struct source {
	struct grid_mover mover;
	u64 left; /* of the order */
	int err;  /* of the socket */
};

static int move_in(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct source *s = (struct source *)mover;

	(void)own;
	if (len > s->left)
		return -EPROTO;
	s->left -= len;
	s->err = read_front(bytes, len);
	return s->err;
}

static int drop_rest(struct source *s)
{
	u8 dropped[0x1000];
	u64 n;

	while (s->left && !s->err) {
		n = s->left < sizeof(dropped) ? s->left : sizeof(dropped);
		move_in(&s->mover, dropped, n, 0);
	}
	return s->err;
}

static int move_out(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	(void)mover;
	(void)own;
	return write_front(bytes, len);
}

struct packing {
	struct grid_mover mover;
	u8 *at;
};

/* Measured before, so it fits. */
static int pack_bytes(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	struct packing *p = (struct packing *)mover;

	(void)own;
	memcpy(p->at, bytes, len);
	p->at += len;
	return 0;
}

static int send_result(struct grid_call *c, u64 exec_ns, u64 most)
{
	struct grid_mover to = {move_out};
	char text[CALL_TEXT_MAX];
	u64 length;
	u32 code;
	int err = grid_call_measure(c, SKEP_OUT, &length);

	if (err) {
		code = call_explain(c, err, text, sizeof(text));
		return send_refusal(code, text);
	}
	if (length > most) {
		code = call_explain_long(c, length, most, text, sizeof(text));
		return send_refusal(code, text);
	}
	err = send_answer(0, length, exec_ns);
	return err ? err : grid_call_send(c, SKEP_OUT, &to);
}

/* Callbacks --------------------------------------------------------------- */

/* Without the front nobody wants the end of the function. */
__attribute__((noreturn)) static void leave_rank(int status)
{
	answering = 0;
	callback_leave(status);
}

__attribute__((noreturn)) static void end_call(u32 code, const char *text)
{
	answering = 0;
	send_refusal(code, text);
	leave_rank(CALLBACK_STATUS);
}

/* A fault in the user's arrays is said by a signal, so no byte is sent before
 * all were read. */
static int send_callback(struct grid_call *c, const struct skep_callback *head)
{
	const struct ranks_answer ask = {0, 1,
					 sizeof(*head) + (u64)head->length, 0};
	u8 *payload = malloc(ask.length);
	struct packing p = {{pack_bytes}, payload + sizeof(*head)};
	int err;

	if (!payload)
		end_call(SKEP_E_WORKER, "no memory for a callback");
	memcpy(payload, head, sizeof(*head));
	err = grid_call_send(c, SKEP_IN, &p.mover);
	answering = 0;
	if (!err)
		err = write_front(&ask, sizeof(ask));
	if (!err)
		err = write_front(payload, ask.length);
	answering = 1;
	free(payload);
	return err;
}

static void ask_front(struct grid_call *c, const struct skep_callback *head)
{
	struct source s = {{move_in}, 0, 0};
	struct ranks_order o = {0};
	int err = send_callback(c, head);

	if (!err)
		err = read_front(&o, sizeof(o));
	if (!err && (o.kind != RANKS_RETURN || o.function != head->param))
		err = -EPROTO;
	s.left = o.length;
	if (!err)
		err = grid_call_accept(c, &s.mover, o.length);
	if (err)
		leave_rank(CALLBACK_STATUS);
}

/* The master runs one function of a call at a time, and a call has one master's
 * thread for them. */
static void refuse_callback(struct grid_call *c,
			    const struct skep_callback *head)
{
	char text[CALL_TEXT_MAX];

	(void)head;
	snprintf(text, sizeof(text),
		 "it called %s of the master, which only rank 0 may do: send "
		 "rank 0 what it needs",
		 c->function->name);
	end_call(SKEP_E_WORKER, text);
}

static const struct callback_way by_front = {ask_front, end_call};
static const struct callback_way by_none = {refuse_callback, end_call};

/* The result of rank 0 is the call's. */
static int run_function(struct grid_call *c, const struct skep_worker *w,
			const struct ranks_order *o, int rank)
{
	char text[CALL_TEXT_MAX];
	const char *why;
	u64 exec_ns = 0;
	int err = texts_open(c, &why);

	if (!err) {
		answering = 1;
		callback_begin(c, rank ? &by_none : &by_front);
		exec_ns = call_function(c, w);
		callback_end();
		answering = 0;
		fflush(stderr);
		if (o->kind == RANKS_CALL)
			err = texts_collect(c, &why);
	}
	if (err) {
		u32 code = call_explain_texts(c, why, err, text, sizeof(text));

		return send_refusal(code, text);
	}
	if (rank || o->kind == RANKS_INIT)
		return send_answer(0, 0, exec_ns);
	return send_result(c, exec_ns, o->most);
}

/* What Initialize was given stays: see worker.h. */
static int run_order(const struct grid_module *m, const struct skep_worker *w,
		     const struct ranks_order *o, int rank)
{
	struct source s = {{move_in}, o->length, 0};
	char text[CALL_TEXT_MAX];
	struct grid_call c;
	int err, bad;

	if (!call_known(m, o->function, o->kind == RANKS_INIT))
		return -EPROTO;
	grid_call_init(&c, m, o->function);
	bad = grid_call_take(&c, &s.mover, &grid_memory_heap, o->length);
	err = drop_rest(&s);
	if (!err && bad) {
		u32 code = call_explain(&c, bad, text, sizeof(text));

		err = send_refusal(code, text);
	} else if (!err) {
		err = run_function(&c, w, o, rank);
	}
	if (o->kind == RANKS_CALL) {
		if (!bad)
			texts_close(&c);
		grid_call_drop(&c, &grid_memory_heap);
	}
	return err;
}

static int serve_orders(const struct grid_module *m,
			const struct skep_worker *w, int rank)
{
	struct ranks_order o;
	int err;

	for (;;) {
		err = read_front(&o, sizeof(o));
		if (err || o.kind == RANKS_END)
			return err;
		err = run_order(m, w, &o, rank);
		if (err)
			return err;
	}
}

/* Opening ------------------------------------------------------------------ */

static int open_front(int rank, int size)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX,
				 .sun_path = RANKS_SOCKET};
	struct ranks_hello hello = {RANKS_MAGIC, (u32)rank, (u32)size};

	front = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (front < 0 || connect(front, (struct sockaddr *)&at, sizeof(at)))
		return -errno;
	return write_front(&hello, sizeof(hello));
}

int skep_rank_main(const struct skep_worker *w, int rank, int size)
{
	struct grid_module m;
	const char *why;
	int err;

	if (grid_module_open(&m, w->manifest, w->length, &why)) {
		fprintf(stderr, "rank %d: %s\n", rank, why);
		return 1;
	}
	err = open_front(rank, size);
	if (err) {
		fprintf(stderr,
			"rank %d: no worker of skep is in this folder (%s): a "
			"program of ranks is started by the worker program\n",
			rank, strerror(-err));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (watch_ends() || serve_orders(&m, w, rank))
		return 1;
	return 0;
}
