// SPDX-License-Identifier: MIT
/*
 * Sends requests, and sends them again to a new hub after the old one was
 * killed: docs/design/reattach.md. client->lock guards epoch, away and the
 * state of each request's sending.
 *
 * The thread that made a request sends it until it was sent once (`sending`);
 * afterwards only the resender sends it. So no request is sent twice on one
 * stream.
 */
#include <skep/assert.h>

#include "back.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK 0x40000	     /* bytes in one DATA frame */
#define SMALL 0x4000	     /* bytes of a frame that are copied */
#define TAIL 0x100	     /* of others, at the end of a call */
#define AGAIN_FOR 60	     /* s; how long to look for the hub */
#define AGAIN_MOST 31536000  /* a year */
#define AGAIN_EVERY 50000000 /* ns between two tries */
#define SECOND 1000000000ull /* ns */

const char grid_lost[] =
	"the hub was lost, and this call's arguments were not kept, because "
	"all of this program's open calls have more than 256 MiB: call again";

/* Bytes of the DATA frame that begins there. */
static u64 part_at(const struct grid_kept *k, u64 at)
{
	return k->len - at < CHUNK ? k->len - at : CHUNK;
}

/* How many of the next part's bytes are copied: of the last part the end, so
 * that nothing reads what was kept when the request may end. A small part is
 * sent by one call to the system. */
static u64 copied_of(const struct grid_kept *k, u64 at)
{
	u64 part = part_at(k, at);

	if (part <= SMALL)
		return part;
	return at + part == k->len ? TAIL : 0;
}

static int send_data(struct grid_client *c, struct skep_request *r, u64 at,
		     int *sent)
{
	const struct grid_kept *k = r->kept;
	u64 part = part_at(k, at), end = copied_of(k, at);
	int last = at + part == k->len, err;
	const void *none;

	err = grid_stream_next(&c->stream, SKEP_DATA, last ? SKEP_LAST : 0,
			       r->id, (u32)part);
	if (!err && part > end)
		err = grid_stream_push(&c->stream, k->bytes + at, part - end,
				       1);
	if (!err && end && part > end)
		err = grid_stream_flush(&c->stream, &none);
	if (!err)
		err = grid_stream_push(&c->stream, k->bytes + at + part - end,
				       end, 0);
	if (!err && last) { /* before the last byte: then it may end */
		grid_request_sent(c, r);
		*sent = 1;
	}
	return err;
}

static int is_call(u16 type)
{
	return type == SKEP_CALL || type == SKEP_CALL_KEPT;
}

static u16 flags_of(struct grid_client *c, const struct skep_request *r,
		    int again)
{
	u16 inner = (r->outer ? SKEP_INNER : 0) | (r->method ? SKEP_METHOD : 0);
	int called;

	if (!is_call(r->kept->type))
		return 0;
	if (!again)
		return inner;
	pthread_mutex_lock(&c->lock);
	called = grid_back_called(r);
	pthread_mutex_unlock(&c->lock);
	return (called ? SKEP_AGAIN | SKEP_CALLED : SKEP_AGAIN) | inner;
}

/* Returns 1 if the request was sent completely; then r may be freed. */
static int send_kept(struct grid_client *c, struct skep_request *r, int again)
{
	const struct grid_kept *k = r->kept;
	u64 need = sizeof(struct skep_frame) + k->head_len;
	u64 at = 0, len = k->len;
	int data = k->type != SKEP_BIND && k->type != SKEP_OBJECT;
	int err, sent = 0;

	if (data)
		need += sizeof(struct skep_frame) + part_at(k, 0);
	err = grid_stream_begin(&c->stream, need);
	if (err)
		return err;
	err = grid_stream_next(&c->stream, k->type, flags_of(c, r, again),
			       r->id, k->head_len);
	if (!err)
		err = grid_stream_push(&c->stream, k->head, k->head_len, 0);
	while (!err && data && !sent) {
		err = send_data(c, r, at, &sent);
		at += CHUNK;
		if (err || sent || at >= len)
			break;
		if (grid_stream_end(&c->stream))
			return -EPIPE;
		need = sizeof(struct skep_frame) + part_at(k, at);
		err = grid_stream_begin(&c->stream, need);
		if (err)
			return err;
	}
	if (!err && !data) {
		grid_request_sent(c, r);
		sent = 1;
	}
	if (grid_stream_end(&c->stream) && !sent)
		err = -EPIPE;
	return sent ? 1 : err;
}

/* Sending ----------------------------------------------------------------- */

/* Waits for a stream on which the request was not sent yet. -EPIPE: there will
 * be none. */
static int take_stream(struct grid_client *c, struct skep_request *r)
{
	int err;

	pthread_mutex_lock(&c->lock);
	while (!c->down && (c->away || r->epoch == c->epoch))
		pthread_cond_wait(&c->back, &c->lock);
	err = c->down ? -EPIPE : 0;
	r->epoch = c->epoch;
	pthread_mutex_unlock(&c->lock);
	return err;
}

int grid_request_send(struct grid_client *c, struct skep_request *r,
		      struct grid_kept *kept,
		      int (*send)(struct grid_client *, struct skep_request *))
{
	int again = 0, err;

	grid_request_keep(c, r, kept);
	for (;; again = 1) {
		err = take_stream(c, r);
		if (err)
			return err;
		err = kept ? send_kept(c, r, again) : send(c, r);
		if (err >= 0)
			return 0;
		if (err != -EPIPE || !kept)
			return err;
	}
}

/* Resending
 * ----------------------------------------------------------------- */

/* The requests that were sent on an earlier stream, the oldest first; 0 ends
 * the list. */
static u64 *list_open(struct grid_client *c)
{
	struct skep_request *r;
	u64 *list, n = 0, i;

	pthread_mutex_lock(&c->lock);
	for (r = c->request; r; r = r->next)
		n++;
	list = malloc((n + 1) * sizeof(*list));
	i = n;
	for (r = c->request; list && r; r = r->next)
		/* the client's list begins with the newest */
		list[--i] = r->id;
	if (list)
		list[n] = 0;
	pthread_mutex_unlock(&c->lock);
	return list;
}

/* Returns the request, marked as being sent, if it must be sent on this
 * stream. */
static struct skep_request *take_open(struct grid_client *c, u64 id,
				      int *cancelled)
{
	struct skep_request *r;
	int take;

	pthread_mutex_lock(&c->lock);
	r = grid_client_slot(c, id);
	take = r && !r->sending && r->kept && r->epoch != c->epoch;
	if (take) {
		r->sending = 1;
		r->epoch = c->epoch;
		*cancelled = r->cancelled;
	}
	pthread_mutex_unlock(&c->lock);
	return take ? r : NULL;
}

static void *resend_all(void *arg)
{
	struct grid_client *c = arg;
	u64 *list = list_open(c);
	struct skep_request *r;
	int cancelled, err = 0;
	u64 i;

	if (!list)
		grid_stream_cut(&c->stream); /* try on the next stream */
	for (i = 0; list && list[i] && err >= 0; i++) {
		r = take_open(c, list[i], &cancelled);
		if (!r)
			continue;
		err = send_kept(c, r, 1);
		if (err < 0)
			/* the next stream's resender sends it */
			grid_request_sent(c, r);
		else if (cancelled)
			grid_stream_send(&c->stream, SKEP_CANCEL, list[i], "",
					 0);
	}
	free(list);
	return NULL;
}

/* Ends the requests that cannot be sent again. */
static void end_lost(struct grid_client *c)
{
	struct skep_request *r;
	u32 i;
	int lost;

	for (i = 0; i < c->slots; i++) {
		pthread_mutex_lock(&c->lock);
		r = c->slot[i];
		lost = r && !r->kept && !r->sending;
		pthread_mutex_unlock(&c->lock);
		if (lost)
			grid_request_end(c, r, OMRPC_E_NO_HUB, grid_lost);
	}
}

static void join_resender(struct grid_client *c)
{
	if (c->resending)
		pthread_join(c->resender, NULL);
	c->resending = 0;
}

/* The thread inherits the reader's signal mask: all signals are blocked. */
static int start_resender(struct grid_client *c)
{
	int err = pthread_create(&c->resender, NULL, resend_all, c);

	c->resending = !err;
	return -err;
}

static int is_wanted(struct grid_client *c, int away)
{
	int yes;

	pthread_mutex_lock(&c->lock);
	yes = !c->down && !c->closing && c->stream.keeps;
	if (yes)
		c->away = away;
	if (yes && !away)
		c->epoch++;
	pthread_cond_broadcast(&c->back);
	pthread_mutex_unlock(&c->lock);
	return yes;
}

u64 grid_again_for(const char *seconds)
{
	char *end;
	long n = seconds ? strtol(seconds, &end, 10) : 0;

	if (!seconds || end == seconds || *end || n < 1 || n > AGAIN_MOST)
		n = AGAIN_FOR;
	return (u64)n * SECOND;
}

static int find_hub(struct grid_client *c)
{
	struct timespec pause = {0, AGAIN_EVERY};
	struct grid_patience p = {c->look};
	u64 began;
	u32 theirs;
	int err;

	for (;;) {
		if (!is_wanted(c, 1))
			return -EPIPE;
		began = grid_clock();
		err = grid_stream_reopen(&c->stream, c->path,
					 grid_patience_until(&p), &theirs);
		if (!err || err == -EPROTO)
			return err;
		nanosleep(&pause, NULL);
		if (!grid_patience_spend(&p, grid_clock() - began))
			return err;
	}
}

int grid_client_again(struct grid_client *c)
{
	int err;

	if (!is_wanted(c, 1)) {
		join_resender(c);
		return -EPIPE;
	}
	grid_stream_cut(&c->stream);
	join_resender(c);
	end_lost(c);
	err = find_hub(c);
	if (err)
		return err;
	if (!is_wanted(c, 0))
		return -EPIPE;
	return start_resender(c);
}
