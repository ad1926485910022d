// SPDX-License-Identifier: MIT
/*
 * Owns the session's requests and the reader's thread. client->lock guards the
 * table; it is never held while sending or waiting.
 */
#include <skep/assert.h>

#include "back.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request's id is its slot with a serial number in the upper bits, so no id
 * is used twice. */
#define SLOT_BITS 20
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
#define HELLO_FOR 60000000000ull /* ns; how long a hub may take to answer */
#define OPEN_EVERY 20000000	 /* ns */

/* Requests ---------------------------------------------------------------- */

static int grow_slots(struct grid_client *c)
{
	u32 slots = c->slots ? c->slots * 2 : 64, i;
	void *slot, *free_slot;

	if (slots > SLOT_MASK + 1)
		return -ENOSPC;
	slot = realloc(c->slot, slots * sizeof(*c->slot));
	if (!slot)
		return -ENOMEM;
	c->slot = slot;
	free_slot = realloc(c->free_slot, slots * sizeof(*c->free_slot));
	if (!free_slot)
		return -ENOMEM;
	c->free_slot = free_slot;
	for (i = slots; i-- > c->slots;) {
		c->slot[i] = NULL;
		c->free_slot[c->free_slots++] = i;
	}
	c->slots = slots;
	return 0;
}

/* The caller holds lock. */
static int enlist_request(struct grid_client *c, struct skep_request *r)
{
	u32 slot;

	skep_assert(pthread_mutex_trylock(&c->lock));
	if (!c->free_slots && grow_slots(c))
		return -ENOMEM;
	slot = c->free_slot[--c->free_slots];
	c->slot[slot] = r;
	r->id = ++c->serial << SLOT_BITS | slot;
	if (r->kind >= GRID_INIT)
		r->number = ++c->calls;
	r->link = &c->request;
	r->next = c->request;
	if (r->next)
		r->next->link = &r->next;
	c->request = r;
	return 0;
}

struct skep_request *grid_request_new(struct grid_client *c,
				      enum grid_request_kind kind,
				      struct grid_args *args)
{
	struct skep_request *r = calloc(1, sizeof(*r));
	int err = -ENOMEM, down;

	if (r) {
		r->kind = kind;
		r->args = args;
		r->sending = 1;
		r->tag = args ? args->tag : 0;
		r->begun = grid_clock();
		pthread_mutex_lock(&c->lock);
		down = c->down;
		err = down ? -EPIPE : enlist_request(c, r);
		pthread_mutex_unlock(&c->lock);
	}
	if (!err)
		return r;
	free(r);
	grid_args_free(args);
	if (err == -EPIPE)
		grid_client_over(c);
	else
		grid_error_set(OMRPC_E_NO_MEMORY,
			       "out of memory for another call");
	return NULL;
}

/* The caller holds lock. A request with a tag is collected by
 * grid_request_next. */
static void add_done(struct grid_client *c, struct skep_request *r)
{
	skep_assert(pthread_mutex_trylock(&c->lock));
	r->done_next = NULL;
	r->done_link = c->done_end;
	*c->done_end = r;
	c->done_end = &r->done_next;
	pthread_cond_signal(&c->done_more);
}

/* The caller holds lock. */
static void remove_done(struct grid_client *c, struct skep_request *r)
{
	skep_assert(pthread_mutex_trylock(&c->lock));
	if (!r->done_link)
		return;
	*r->done_link = r->done_next;
	if (r->done_next)
		r->done_next->done_link = r->done_link;
	else
		c->done_end = r->done_link;
	r->done_link = NULL;
}

/* The caller holds lock. */
static void drop_args(struct grid_client *c, struct skep_request *r)
{
	skep_assert(pthread_mutex_trylock(&c->lock));
	if (!r->ended || r->sending)
		return;
	grid_request_drop_kept(c, r);
	grid_args_free(r->args);
	r->args = NULL;
}

int grid_request_busy(struct grid_client *c, struct skep_request *r)
{
	int busy;

	pthread_mutex_lock(&c->lock);
	busy = r->sending;
	pthread_mutex_unlock(&c->lock);
	return busy;
}

void grid_request_sent(struct grid_client *c, struct skep_request *r)
{
	pthread_mutex_lock(&c->lock);
	r->sending = 0;
	drop_args(c, r);
	pthread_cond_broadcast(&c->ended);
	if (r->tag && r->ended)
		add_done(c, r); /* afterwards r may be freed */
	pthread_mutex_unlock(&c->lock);
}

u32 grid_request_next(struct grid_client *c, struct skep_request **ended,
		      u32 room)
{
	u32 n = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->done && !c->closing && !c->over)
		pthread_cond_wait(&c->done_more, &c->lock);
	for (; n < room && c->done; n++) {
		ended[n] = c->done;
		remove_done(c, c->done);
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* The caller holds lock. Frees the slot; the request remains. */
static void end_request(struct grid_client *c, struct skep_request *r, int code,
			const char *text)
{
	u32 slot = r->id & SLOT_MASK;

	skep_assert(pthread_mutex_trylock(&c->lock));
	if (r->ended)
		return;
	r->ended = 1;
	r->code = code;
	r->text = text ? strdup(text) : NULL;
	r->info.wall_ns = grid_clock() - r->begun;
	if (code && code != OMRPC_E_CANCELLED && r->args && r->args->lost)
		*r->args->lost = 1;
	drop_args(c, r);
	c->slot[slot] = NULL;
	c->free_slot[c->free_slots++] = slot;
	if (r->tag && !r->sending)
		add_done(c, r);
	pthread_cond_broadcast(&c->ended);
}

int grid_request_ended(struct grid_client *c, const struct skep_request *r)
{
	int ended;

	pthread_mutex_lock(&c->lock);
	ended = r->ended;
	pthread_mutex_unlock(&c->lock);
	return ended;
}

int grid_request_cancel(struct grid_client *c, struct skep_request *r)
{
	u64 id = r->id;
	int down;

	pthread_mutex_lock(&c->lock);
	r->cancelled = 1; /* the resender checks it too */
	pthread_mutex_unlock(&c->lock);
	if (!grid_stream_send(&c->stream, SKEP_CANCEL, id, "", 0))
		return OMRPC_OK;
	pthread_mutex_lock(&c->lock);
	down = c->down || !c->stream.keeps;
	pthread_mutex_unlock(&c->lock);
	return down ? grid_client_over(c) : OMRPC_OK;
}

void grid_request_hush(struct grid_client *c, struct skep_request *r)
{
	pthread_mutex_lock(&c->lock);
	r->quiet = 1;
	pthread_mutex_unlock(&c->lock);
}

/* Whether the failure is printed now. That of a module is printed with the call
 * that needs it. */
static int is_reported(struct grid_client *c, struct skep_request *r)
{
	int yes;

	pthread_mutex_lock(&c->lock);
	yes = r->kind >= GRID_INIT && !r->quiet && !c->closing && !c->quiet;
	r->reported = yes;
	pthread_mutex_unlock(&c->lock);
	return yes;
}

void grid_request_end(struct grid_client *c, struct skep_request *r, int code,
		      const char *text)
{
	if (grid_back_end(c, r, code, text))
		return;
	if (code && is_reported(c, r))
		grid_report_failed(r, text);
	pthread_mutex_lock(&c->lock);
	end_request(c, r, code, text);
	pthread_mutex_unlock(&c->lock);
}

int grid_request_wait(struct grid_client *c, struct skep_request *r)
{
	if (!grid_request_ended(c, r) && grid_back_refuse_wait(r))
		return OMRPC_E_REFUSED;
	pthread_mutex_lock(&c->lock);
	while (!r->ended || r->sending)
		pthread_cond_wait(&c->ended, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (r->code)
		grid_error_set(r->code, "%s",
			       r->text ? r->text : "the call failed");
	if (r->code && r->reported)
		grid_error_tell();
	return r->code;
}

void grid_request_free(struct grid_client *c, struct skep_request *r)
{
	grid_back_free(r);
	pthread_mutex_lock(&c->lock);
	while (r->sending) /* by the resender */
		pthread_cond_wait(&c->ended, &c->lock);
	end_request(c, r, OMRPC_ERROR, NULL);
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	remove_done(c, r);
	pthread_mutex_unlock(&c->lock);
	free(r->text);
	free(r->result);
	free(r->manifest);
	free(r);
}

static const char *error_reason(int err)
{
	if (err == -EPROTO)
		return "the hub broke the protocol: its revision may be "
		       "another than this program's";
	if (err == -ENOMEM)
		return "out of memory for data from the hub";
	if (err != -EPIPE)
		return "the hub was lost, and there was no other in time";
	return "the hub closed the session: it was stopped, or it ended this "
	       "run";
}

void grid_client_cut(struct grid_client *c)
{
	grid_client_down(c, OMRPC_E_NO_HUB, error_reason(-EPIPE));
	grid_stream_cut(&c->stream);
}

int grid_client_keeps(struct grid_client *c)
{
	int keeps;

	pthread_mutex_lock(&c->lock);
	keeps = c->stream.keeps && !c->down && !c->closing;
	pthread_mutex_unlock(&c->lock);
	return keeps;
}

/* The reader may be using the request, so the reader ends it. */
int grid_request_abandon(struct grid_client *c, struct skep_request *r)
{
	int code;

	grid_request_hush(c, r);
	grid_request_sent(c, r);
	grid_client_cut(c);
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

struct skep_request *grid_client_slot(struct grid_client *c, u64 id)
{
	u32 slot = id & SLOT_MASK;

	skep_assert(pthread_mutex_trylock(&c->lock));
	if (slot < c->slots && c->slot[slot] && c->slot[slot]->id == id)
		return c->slot[slot];
	return NULL;
}

struct skep_request *grid_client_find(struct grid_client *c, u64 id)
{
	struct skep_request *r;

	pthread_mutex_lock(&c->lock);
	r = grid_client_slot(c, id);
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* The reader -------------------------------------------------------------- */

int grid_client_error(struct grid_client *c, u32 length, char *text, u64 size,
		      int *code)
{
	struct skep_error e;
	u64 part;
	int err;

	if (length < sizeof(e))
		return -EPROTO;
	err = grid_stream_read(&c->stream, &e, sizeof(e));
	if (err)
		return err;
	length -= (u32)sizeof(e);
	if (e.text != length)
		return -EPROTO;
	*code = OMRPC_E_INTERNAL;
	if (e.code >= SKEP_E_PROTOCOL && e.code <= SKEP_E_INTERNAL)
		*code = OMRPC_E_PROTOCOL - ((int)e.code - SKEP_E_PROTOCOL);
	part = length < size - 1 ? length : size - 1;
	err = grid_stream_read(&c->stream, text, part);
	text[err ? 0 : part] = 0;
	return err ? err : grid_stream_skip(&c->stream, length - part);
}

void grid_client_down(struct grid_client *c, int code, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!c->down) {
		c->down = code;
		snprintf(c->why, sizeof(c->why), "%s", why);
		pthread_cond_broadcast(&c->back);
	}
	pthread_mutex_unlock(&c->lock);
}

static int handle_error(struct grid_client *c, const struct skep_frame *frame)
{
	struct skep_request *r;
	char text[GRID_TEXT_MAX];
	int code, err;

	err = grid_client_error(c, frame->length, text, sizeof(text), &code);
	if (err)
		return err;
	if (!frame->call) {
		grid_client_down(c, code, text);
		return -EPIPE;
	}
	r = grid_client_find(c, frame->call);
	if (r)
		grid_request_end(c, r, code, text);
	return 0;
}

static int handle_bound(struct grid_client *c, const struct skep_frame *frame)
{
	struct skep_request *r = grid_client_find(c, frame->call);
	struct skep_bound bound;
	int err;

	if (!r || r->kind != GRID_BIND || frame->length < sizeof(bound))
		return -EPROTO;
	err = grid_stream_read(&c->stream, &bound, sizeof(bound));
	if (err)
		return err;
	if (bound.manifest != frame->length - sizeof(bound))
		return -EPROTO;
	r->manifest = malloc(bound.manifest + 1ul);
	if (!r->manifest)
		return -ENOMEM;
	r->module = bound.module;
	r->bytes = bound.manifest;
	err = grid_stream_read(&c->stream, r->manifest, r->bytes);
	if (!err)
		grid_request_end(c, r, OMRPC_OK, NULL);
	return err;
}

static int handle_done(struct grid_client *c, const struct skep_frame *frame)
{
	struct skep_request *r = grid_client_find(c, frame->call);

	if (!r || (r->kind != GRID_INIT && r->kind != GRID_OBJECT))
		return -EPROTO;
	grid_request_end(c, r, OMRPC_OK, NULL);
	return grid_stream_skip(&c->stream, frame->length);
}

int grid_client_frame(struct grid_client *c, const struct skep_frame *frame)
{
	switch (frame->type) {
	case SKEP_PING:
		return grid_stream_skip(&c->stream, frame->length);
	case SKEP_ERROR:
		return handle_error(c, frame);
	case SKEP_BOUND:
		return handle_bound(c, frame);
	case SKEP_DONE:
		return handle_done(c, frame);
	case SKEP_KEPT:
		return grid_data_handle_kept(c, frame);
	case SKEP_CALLBACK:
		return grid_back_take(c, frame);
	case SKEP_BYE: /* the hub has ended this session for good */
		grid_client_down(c, OMRPC_E_NO_HUB, error_reason(-EPIPE));
		return -EPIPE;
	}
	return -EPROTO;
}

/* The session is over, so no request is added any more. */
static void end_all(struct grid_client *c)
{
	struct skep_request *r;
	u32 i;

	for (i = 0; i < c->slots; i++) {
		pthread_mutex_lock(&c->lock);
		r = c->slot[i];
		pthread_mutex_unlock(&c->lock);
		if (r)
			grid_request_end(c, r, c->down, c->why);
	}
	grid_back_wait_all(c);
}

static int read_stream(struct grid_client *c)
{
	struct skep_frame frame;
	int err;

	do {
		err = grid_stream_head(&c->stream, &frame);
		if (!err)
			err = frame.type == SKEP_RESULT
				      ? grid_result_take(c, &frame)
				      : grid_client_frame(c, &frame);
	} while (!err);
	return err;
}

static void *read_all(void *arg)
{
	struct grid_client *c = arg;
	int err;

	do {
		err = read_stream(c);
		if (err == -EPIPE)
			err = grid_client_again(c);
	} while (!err);
	grid_client_down(c, err == -EPROTO ? OMRPC_E_PROTOCOL : OMRPC_E_NO_HUB,
			 error_reason(err));
	grid_stream_cut(&c->stream);
	end_all(c);
	pthread_mutex_lock(&c->lock);
	c->over = 1;
	pthread_cond_broadcast(&c->done_more);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int grid_client_over(struct grid_client *c)
{
	int code;

	/* A sender may see the end before the reader knows the reason. */
	pthread_mutex_lock(&c->lock);
	code = c->down ? c->down : OMRPC_E_NO_HUB;
	grid_error_set(code, "%s", c->down ? c->why : error_reason(-EPIPE));
	pthread_mutex_unlock(&c->lock);
	return code;
}

/* Opening and closing ----------------------------------------------------- */

static int open_error(const char *path, int err, u32 theirs)
{
	if (err == -ETIMEDOUT)
		return grid_error_set(OMRPC_E_NO_HUB,
				      "the hub behind the socket %s "
				      "(SKEP_SOCKET) did not answer for a "
				      "minute: stop it, and start it again",
				      path);
	if (err != -EPROTO)
		return grid_error_set(OMRPC_E_NO_HUB,
				      "the hub's socket %s (SKEP_SOCKET) "
				      "cannot be used: %s: start this "
				      "program with `skep run -- PROGRAM`, "
				      "which makes one for it",
				      path, strerror(-err));
	if (!theirs || theirs == SKEP_SESSION_REVISION)
		return grid_error_set(OMRPC_E_PROTOCOL,
				      "%s (SKEP_SOCKET) is not a hub of skep",
				      path);
	return grid_error_set(OMRPC_E_REVISION,
			      "the hub speaks session revision %u, this "
			      "program %u: update %s",
			      theirs, SKEP_SESSION_REVISION,
			      theirs > SKEP_SESSION_REVISION
				      ? "libskeprpc and link the program again"
				      : "skep");
}

/* The thread blocks all signals. */
static int start_reader(struct grid_client *c)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&c->reader, NULL, read_all, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

/* The hub was killed: its socket is still there, or broke before its HELLO. */
static int is_lost(int err)
{
	return err == -ECONNREFUSED || err == -ECONNRESET || err == -EPIPE;
}

/* A hub that is killed as a program begins is waited for like one that is
 * killed later. While the next one starts, the socket may be missing. */
static int open_stream(struct grid_stream *s, const char *path, u32 *theirs)
{
	struct timespec pause = {0, OPEN_EVERY};
	u64 until = grid_clock() + HELLO_FOR;
	int err, lost = 0;

	for (;;) {
		err = grid_stream_open(s, path, until, theirs);
		lost |= is_lost(err);
		if (!lost || !(is_lost(err) || err == -ENOENT) ||
		    grid_clock() > until)
			return err;
		nanosleep(&pause, NULL);
	}
}

int grid_client_open(struct grid_client **client, const char *path)
{
	struct grid_client *c = calloc(1, sizeof(*c));
	u32 theirs;
	int err;

	if (!c)
		return grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
	err = open_stream(&c->stream, path, &theirs);
	if (err) {
		free(c);
		return open_error(path, err, theirs);
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->binding, NULL);
	pthread_cond_init(&c->ended, NULL);
	pthread_cond_init(&c->done_more, NULL);
	pthread_cond_init(&c->back, NULL);
	c->epoch = 1;
	c->path = strdup(path);
	c->keep = getenv("SKEP_KEEP");
	c->keep = c->keep ? strdup(c->keep) : NULL;
	c->look = grid_again_for(getenv("SKEP_KEEP_RUNS"));
	c->done_end = &c->done;
	err = c->path ? start_reader(c) : -ENOMEM;
	if (err) {
		grid_stream_close(&c->stream);
		free(c->path);
		free(c->keep);
		free(c);
		return grid_error_set(OMRPC_E_NO_MEMORY,
				      "can't start a thread: %s",
				      strerror(-err));
	}
	*client = c;
	return OMRPC_OK;
}

void grid_client_end(struct grid_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->closing = 1;
	pthread_cond_broadcast(&c->done_more);
	pthread_mutex_unlock(&c->lock);
	grid_stream_send(&c->stream, SKEP_BYE, 0, "", 0);
	grid_stream_cut(&c->stream);
}

void grid_client_close(struct grid_client *c)
{
	struct skep_handle *m;

	grid_client_end(c);
	pthread_join(c->reader, NULL);
	while (c->request)
		grid_request_free(c, c->request);
	while ((m = c->modules)) {
		c->modules = m->next;
		free(m->key);
		free(m->bytes);
		free(m);
	}
	grid_stream_close(&c->stream);
	pthread_cond_destroy(&c->ended);
	pthread_cond_destroy(&c->done_more);
	pthread_cond_destroy(&c->back);
	pthread_mutex_destroy(&c->binding);
	pthread_mutex_destroy(&c->lock);
	free(c->slot);
	free(c->free_slot);
	free(c->path);
	free(c->keep);
	free(c);
}
