// SPDX-License-Identifier: MIT
/*
 * Owns the threads that run functions of the program for its calls: one for
 * each call that was called back, until that ends. client->lock guards struct
 * grid_back. The reader gives a thread its work and never waits for it.
 *
 * A hub that was started again repeats its question. The answer of the last
 * number is kept, so the function does not run twice.
 */
#include <skep/assert.h>

#include "back.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"

struct grid_back {
	struct grid_client *client;
	struct skep_request *request;
	pthread_t thread;
	pthread_cond_t more;
	struct skep_callback head; /* the last one that was taken */
	u8 *in;			   /* its arguments, until it is run */
	u8 *out;		   /* the payload of its RETURN; NULL: none */
	u32 out_len;
	u8 *running;   /* those of the function that runs */
	int run, send; /* what is to be done */
	int code;      /* of why the call cannot go on; 0: it can */
	char why[512];
	int ending, end_code; /* the request is to be ended */
	char *end_text;
};

static __thread const char *inside;
static __thread u64 outer; /* the call for which that runs */
/* The same as `inside`, in one place for libskeprpc and libgridrpc if a program
 * has both: each has a session, and a hub knows no call of the other one. */
extern __thread const char *skep_function_inside;
__thread const char *skep_function_inside __attribute__((weak));

static void set_inside(const char *name)
{
	inside = name;
	skep_function_inside = name;
}

const char *grid_back_inside(void)
{
	return inside;
}

u64 grid_back_outer(void)
{
	return inside ? outer : 0;
}

int grid_back_refuse(const char *what)
{
	if (!inside)
		return OMRPC_OK;
	return grid_error_set(OMRPC_E_REFUSED,
			      "%s runs for a call that called it back; there "
			      "it cannot %s",
			      inside, what);
}

int grid_back_refuse_foreign(void)
{
	if (inside || !skep_function_inside)
		return OMRPC_OK;
	return grid_error_set(OMRPC_E_REFUSED,
			      "%s runs for a call of the program's other "
			      "session: there it can make and wait for calls "
			      "with the functions of that library only, "
			      "GridRPC's or OmniRPC's",
			      skep_function_inside);
}

/* A call from elsewhere may wait for the slot of the one that waits here. */
int grid_back_refuse_other(u64 made_within)
{
	if (!inside || made_within == outer)
		return OMRPC_OK;
	return grid_back_refuse("wait for a call that it did not make, and "
				"that may need its slot");
}

int grid_back_refuse_wait(const struct skep_request *r)
{
	if (r->kind != GRID_CALL)
		return OMRPC_OK;
	return inside ? grid_back_refuse_other(r->outer)
		      : grid_back_refuse_foreign();
}

int grid_back_called(const struct skep_request *r)
{
	return r->back && r->back->head.number;
}

/* The thread -------------------------------------------------------------- */

static void serve_rest(struct grid_back *b);

/*
 * The function ended its thread, which is the only one that can end the call:
 * it does so here, before it is gone.
 */
static void leave_function(void *arg)
{
	struct grid_back *b = arg;

	free(b->running);
	pthread_mutex_lock(&b->client->lock);
	b->send = 1;
	b->code = SKEP_E_ARGUMENTS;
	snprintf(b->why, sizeof(b->why),
		 "%s of this program ended its thread: a function that a "
		 "worker calls must return",
		 inside);
	set_inside(NULL);
	serve_rest(b);
}

/* The caller holds lock, and gets it back. */
static void run_function(struct grid_back *b)
{
	struct skep_request *r = b->request;
	struct grid_apply a = {.outer = &r->args->call,
			       .param = b->head.param,
			       .in = b->in,
			       .in_len = b->head.length,
			       .by_address = r->args->by_address,
			       .hook = r->args->hook};
	u8 *old = b->out;
	int err;

	b->running = b->in;
	b->in = NULL;
	b->out = NULL;
	b->run = 0;
	pthread_mutex_unlock(&b->client->lock);
	free(old);
	set_inside(grid_apply_name(&a));
	outer = r->id;
	pthread_cleanup_push(leave_function, b);
	err = grid_apply_run(&a, &b->head);
	pthread_cleanup_pop(0);
	set_inside(NULL);
	free(b->running);
	pthread_mutex_lock(&b->client->lock);
	b->send = 1;
	b->out = a.out;
	b->out_len = a.out_len;
	if (!err)
		return;
	b->code = err == -ENOMEM ? SKEP_E_INTERNAL : SKEP_E_ARGUMENTS;
	snprintf(b->why, sizeof(b->why), "%s", a.why);
}

/* Tells the hub that the call cannot go on. */
static void send_refusal(struct grid_back *b)
{
	struct {
		struct skep_error e;
		char text[sizeof(b->why)];
	} out;

	out.e.code = (u32)b->code;
	out.e.text = (u32)strlen(b->why);
	memcpy(out.text, b->why, out.e.text);
	grid_stream_send(&b->client->stream, SKEP_ERROR, b->request->id, &out,
			 (u32)sizeof(out.e) + out.e.text);
}

/*
 * The same. A stream that breaks meanwhile is no error: the next hub asks
 * again. The arguments of the call are sent first, because a hub does not take
 * an answer of a call that it does not know.
 */
static void send_answer(struct grid_back *b)
{
	struct skep_request *r = b->request;

	while (r->sending && !b->ending)
		pthread_cond_wait(&b->client->ended, &b->client->lock);
	b->send = 0;
	if (b->ending)
		return;
	pthread_mutex_unlock(&b->client->lock);
	if (b->code)
		send_refusal(b);
	else
		grid_stream_send(&b->client->stream, SKEP_RETURN, r->id, b->out,
				 b->out_len);
	pthread_mutex_lock(&b->client->lock);
}

/* The caller holds lock, and loses it. */
static void serve_rest(struct grid_back *b)
{
	struct grid_client *c = b->client;

	while (!b->ending) {
		if (b->run)
			run_function(b);
		else if (b->send)
			send_answer(b);
		else
			pthread_cond_wait(&b->more, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	grid_request_end(c, b->request, b->end_code, b->end_text);
	pthread_mutex_lock(&c->lock);
	c->backs--;
	pthread_cond_broadcast(&c->ended);
	pthread_mutex_unlock(&c->lock);
}

static void *serve_back(void *arg)
{
	struct grid_back *b = arg;

	pthread_mutex_lock(&b->client->lock);
	serve_rest(b);
	return NULL;
}

/* The reader -------------------------------------------------------------- */

/* The new thread blocks all signals, as the reader does. */
static struct grid_back *start_back(struct grid_client *c,
				    struct skep_request *r)
{
	struct grid_back *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return NULL;
	b->client = c;
	b->request = r;
	pthread_cond_init(&b->more, NULL);
	pthread_mutex_lock(&c->lock);
	err = pthread_create(&b->thread, NULL, serve_back, b);
	if (!err) {
		r->back = b;
		c->backs++;
	}
	pthread_mutex_unlock(&c->lock);
	if (!err)
		return b;
	pthread_cond_destroy(&b->more);
	free(b);
	return NULL;
}

/* The caller holds lock. Returns the arguments if they are not taken. */
static u8 *give_work(struct grid_back *b, const struct skep_callback *head,
		     u8 *in)
{
	skep_assert(pthread_mutex_trylock(&b->client->lock));
	if (b->ending || b->code)
		return in;
	if (b->head.number && head->number == b->head.number &&
	    head->param == b->head.param) {
		b->send |= !!b->out; /* else it runs now */
	} else if (head->number == b->head.number + 1 && !b->run &&
		   (b->out || !b->head.number)) {
		b->head = *head;
		b->in = in;
		b->run = 1;
		in = NULL;
	} else {
		b->code = SKEP_E_PROTOCOL;
		b->send = 1;
		snprintf(b->why, sizeof(b->why),
			 "the worker called this program with the number %llu, "
			 "and the last one was %llu",
			 (unsigned long long)head->number,
			 (unsigned long long)b->head.number);
	}
	pthread_cond_signal(&b->more);
	return in;
}

int grid_back_take(struct grid_client *c, const struct skep_frame *frame)
{
	struct skep_request *r = grid_client_find(c, frame->call);
	struct skep_callback head;
	struct grid_back *b;
	u8 *in;
	int err;

	if (frame->length < sizeof(head))
		return -EPROTO;
	err = grid_stream_read(&c->stream, &head, sizeof(head));
	if (err)
		return err;
	if (head.length != frame->length - sizeof(head))
		return -EPROTO;
	if (!r) /* it has ended meanwhile */
		return grid_stream_skip(&c->stream, head.length);
	if (r->kind != GRID_CALL || r->args->bytes)
		return -EPROTO;
	in = malloc(head.length + 1ul);
	if (!in)
		return -ENOMEM;
	err = grid_stream_read(&c->stream, in, head.length);
	b = err ? NULL : r->back ? r->back : start_back(c, r);
	if (b) {
		pthread_mutex_lock(&c->lock);
		in = give_work(b, &head, in);
		pthread_mutex_unlock(&c->lock);
	}
	free(in);
	return err ? err : b ? 0 : -ENOMEM;
}

int grid_back_busy(struct grid_client *c, const struct skep_request *r)
{
	const struct grid_back *b;
	int busy;

	pthread_mutex_lock(&c->lock);
	b = r->back;
	busy = b && b->head.number && !b->out && !b->code;
	pthread_mutex_unlock(&c->lock);
	return busy;
}

/* The caller holds lock. */
static void begin_end(struct grid_back *b, int code, const char *text)
{
	skep_assert(pthread_mutex_trylock(&b->client->lock));
	if (b->ending)
		return;
	b->end_code = code;
	b->end_text = text ? strdup(text) : NULL;
	b->ending = 1;
	pthread_cond_signal(&b->more);
	pthread_cond_broadcast(&b->client->ended); /* see send_answer */
}

int grid_back_end(struct grid_client *c, struct skep_request *r, int code,
		  const char *text)
{
	struct grid_back *b;
	int mine;

	pthread_mutex_lock(&c->lock);
	b = r->back;
	mine = b && !pthread_equal(pthread_self(), b->thread);
	if (mine)
		begin_end(b, code, text);
	pthread_mutex_unlock(&c->lock);
	return mine;
}

void grid_back_wait_all(struct grid_client *c)
{
	pthread_mutex_lock(&c->lock);
	while (c->backs)
		pthread_cond_wait(&c->ended, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void grid_back_free(struct skep_request *r)
{
	struct grid_back *b = r->back;

	if (!b)
		return;
	pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->more);
	free(b->in);
	free(b->out);
	free(b->end_text);
	free(b);
	r->back = NULL;
}
