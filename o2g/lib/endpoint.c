// SPDX-License-Identifier: MIT
/* Opening and closing an endpoint, and its attributes. */
#include "endpoint.h"
#include "error.h"
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define SQ_ENTRIES 1024
#define CQ_ENTRIES 4096
/* Peeks and cancels, in addition to the operations that are limited. */
#define SPARE 64

s64 o2g_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (s64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int random_bytes(void *out, size_t length)
{
	if (getrandom(out, length, 0) == (ssize_t)length)
		return 0;
	return o2g_error_set(-EIO, "can't get random bytes from the kernel");
}

static int open_engine(struct o2g *o2g)
{
	struct o2g_settings *s = &o2g->settings;
	struct o2g_engine_options options = {
		.sq_entries = SQ_ENTRIES,
		.cq_entries = CQ_ENTRIES,
		.limits = {.postings = s->operations + SPARE,
			   .peers = O2G_PEERS_MAX,
			   .unexpected = s->unexpected,
			   .write_off = s->unexpected / 2,
			   .invited = s->unexpected / 4},
		.tick = o2g_page_show,
		.ctx = o2g,
	};
	int r = random_bytes(options.limits.hash_key,
			     sizeof(options.limits.hash_key));

	if (r)
		return r;
	r = o2g_choice_open(&s->engine, &options, &o2g->engine, &o2g->area);
	o2g->ops = s->engine.ops;
	return r;
}

static int make_identity(struct o2g *o2g)
{
	struct o2g_id id;
	int r = random_bytes(&id, sizeof(id));

	if (r == 0)
		o2g_identity_make(&o2g->identity, o2g->settings.secret, &id);
	if (o2g->settings.encrypt)
		o2g->identity.options = O2G_OPTION_RECORDS;
	return r;
}

static int make_memory(struct o2g *o2g)
{
	o2g->by_number = calloc(O2G_PEERS_MAX, sizeof(struct o2g_peer *));
	if (o2g->by_number && o2g_bounce_make(o2g) == 0)
		return 0;
	return o2g_error_set(-ENOMEM, "no memory for an endpoint");
}

static void free_endpoint(struct o2g *o2g)
{
	if (o2g->engine)
		o2g->ops->close(o2g->engine);
	o2g_page_close(o2g); /* its writer has ended */
	o2g_trace_close(o2g);
	o2g_bounce_free_all(o2g);
	free(o2g->bodies.offset);
	o2g_peer_free_all(o2g);
	pthread_mutex_destroy(&o2g->submit);
	pthread_mutex_destroy(&o2g->take);
	pthread_mutex_destroy(&o2g->lock);
	explicit_bzero(o2g, sizeof(*o2g));
	free(o2g);
}

static int build_endpoint(struct o2g *o2g)
{
	int r = make_identity(o2g);

	if (r == 0)
		r = o2g_trace_open(o2g);
	if (r == 0)
		r = make_memory(o2g);
	if (r == 0)
		r = open_engine(o2g);
	if (r == 0)
		r = o2g_opener_start(o2g);
	return r;
}

static int open_held(struct o2g *o2g, const struct o2g_options *options)
{
	int r = o2g_settings_read(&o2g->settings, options);

	if (r == 0)
		r = build_endpoint(o2g);
	if (r) {
		free_endpoint(o2g);
		return r;
	}
	o2g_fork_watch(o2g);
	o2g_page_open(o2g);
	return 0;
}

int o2g_open(struct o2g **out, const struct o2g_options *options)
{
	struct o2g *o2g;
	int r = o2g_fork_prepare();

	*out = 0;
	if (r)
		return r;
	o2g = calloc(1, sizeof(*o2g));
	if (!o2g)
		return o2g_error_set(-ENOMEM, "no memory for an endpoint");
	pthread_mutex_init(&o2g->submit, 0);
	pthread_mutex_init(&o2g->take, 0);
	pthread_mutex_init(&o2g->lock, 0);
	o2g_error_read_level();
	o2g_fork_hold();
	r = open_held(o2g, options);
	o2g_fork_release();
	if (r == 0)
		*out = o2g;
	return r;
}

static void log_counts(const struct o2g_counts *c)
{
	o2g_error_log_more("closed: sent %llu (%llu bytes, %llu to itself, "
			   "%llu by request), received %llu (%llu bytes, %llu "
			   "expected, %llu unexpected)",
			   c->sent, c->sent_bytes, c->self, c->requested,
			   c->received, c->received_bytes, c->expected,
			   c->unexpected);
}

int o2g_close(struct o2g *o2g, int linger_ms)
{
	s64 end = o2g_now_ns() + linger_ms * 1000000ll;
	struct o2g_counts counts;
	int r = o2g_endpoint_alive(o2g), finished;
	s64 left;

	if (r)
		return r;
	r = o2g_opener_settle(o2g, linger_ms);
	o2g_opener_stop(o2g);
	left = (end - o2g_now_ns()) / 1000000;
	finished = o2g->ops->finish(o2g->engine, left > 0 ? (int)left : 0);
	if (r == 0)
		r = finished;
	if (r)
		o2g_error_set(r,
			      "closed after %d ms, before all peers received "
			      "what was sent to them",
			      linger_ms);
	o2g->ops->counts(o2g->engine, &counts);
	log_counts(&counts);
	o2g_fork_hold();
	o2g_fork_forget(o2g);
	o2g_report_send(o2g, &counts);
	free_endpoint(o2g);
	o2g_fork_release();
	return r;
}

int o2g_name(struct o2g *o2g, uint8_t name[O2G_NAME_SIZE])
{
	int r = o2g_endpoint_alive(o2g);

	if (r == 0)
		memcpy(name, &o2g->name, sizeof(o2g->name));
	return r;
}

const char *o2g_engine_name(const struct o2g *o2g)
{
	return o2g->ops->name;
}
