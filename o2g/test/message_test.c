// SPDX-License-Identifier: MIT
/* Messages between endpoints over loopback: what arrives where, and when. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "bed.h"

#include <skep/o2g_wire.h>
#include <tests/tap.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

static struct o2g *a, *b;
static uint32_t to_b, to_a;

static void open_pair(void)
{
	a = bed_open();
	b = bed_open();
	to_b = bed_peer(a, b);
	to_a = bed_peer(b, a);
}

static void close_pair(void)
{
	TAP(o2g_close(a, 5000) == 0);
	TAP(o2g_close(b, 5000) == 0);
}

/* Waits for the event with this cookie; others are an error. */
static int await_end(struct o2g *o2g, const void *cookie, int status)
{
	struct o2g_event event = bed_event(o2g);

	return event.cookie == cookie && event.status == status;
}

static int transfer_message(size_t size, size_t offset, int expected)
{
	uint8_t *from = malloc(size + 16), *to = calloc(1, size + 17);
	int ok;

	bed_fill(from + offset, size, (unsigned)size);
	to[offset + size] = 0xa5;
	if (expected)
		bed_recv(b, to_a, 5, to + offset, size);
	bed_send(a, to_b, 5, from + offset, size);
	if (!expected) {
		/* the send may only end after the receive, beyond credit */
		struct o2g_match any = bed_match(to_a, 5);
		struct o2g_event event = {.status = -ENOMSG};

		while (event.status == -ENOMSG) {
			if (o2g_peek(b, &any, 0, 0))
				bed_die("peek");
			event = bed_event(b);
		}
		bed_recv(b, to_a, 5, to + offset, size);
	}
	ok = await_end(b, to + offset, 0) && await_end(a, from + offset, 0) &&
	     bed_check(to + offset, size, (unsigned)size) &&
	     to[offset + size] == 0xa5;
	free(from);
	free(to);
	return ok;
}

static void test_sizes(void)
{
	static const size_t size[] = {0,      1,       7,	48,	 49,
				      4095,   4096,    65535,	65537,	 131072,
				      131073, 1000003, 4194304, 33554432};

	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		tap_ok(transfer_message(size[i], i % 8, 1),
		       "%zu bytes expected", size[i]);
		tap_ok(transfer_message(size[i], (i + 3) % 8, 0),
		       "%zu bytes first", size[i]);
	}
}

static void tags_and_data(void)
{
	struct o2g_match to = bed_match(to_b, 0x1234500000000042);
	struct o2g_match from = {
		.peer = O2G_ANY, .context = 1, .tag = 0x42, .ignore = ~0xffull};
	struct o2g_event event;
	char in[4] = "";

	TAP(o2g_recv(b, &from, in, sizeof(in), 0, 0, in) == 0);
	TAP(o2g_send(a, &to, "abcdef", 6, 77, O2G_WITH_DATA, a) == 0);
	event = bed_event(b);
	tap_ok(event.status == -EMSGSIZE && event.length == 4 &&
		       event.total == 6 && memcmp(in, "abcd", 4) == 0,
	       "a long message is cut to the buffer");
	tap_ok(event.tag == to.tag && event.peer == to_a && event.data == 77 &&
		       event.flags == O2G_HAS_DATA &&
		       event.what == O2G_RECEIVED && event.context == 1,
	       "a receive reports tag, sender and data");
	event = bed_event(a);
	TAP(event.what == O2G_SENT && event.status == 0 && event.cookie == a);
}

static void huge_then_small(void)
{
	size_t size = 24 << 20; /* beyond credit */
	uint8_t *huge = malloc(size), *in = malloc(size);
	char small[] = "B", got[2];

	bed_fill(huge, size, 9);
	bed_send(a, to_b, 1, huge, size);
	bed_send(a, to_b, 2, small, 2);
	bed_recv(b, to_a, 2, got, 2);
	tap_ok(await_end(b, got, 0) && strcmp(got, "B") == 0,
	       "a small message overtakes a huge one without a receive");
	bed_recv(b, to_a, 1, in, size);
	tap_ok(await_end(b, in, 0) && bed_check(in, size, 9),
	       "the huge message arrives later");
	TAP(await_end(a, small, 0));
	TAP(await_end(a, huge, 0));
	free(huge);
	free(in);
}

/* Beyond credit, and with no receive until its sender has gone on. A quarter of
 * what may be buffered is less where SKEP_O2G_UNEXPECTED is small. */
static void huge_alone(void)
{
	size_t size = (getenv("SKEP_O2G_UNEXPECTED") ? 12 : 32) << 20;
	uint8_t *huge = malloc(size), *in = malloc(size);

	bed_fill(huge, size, 11);
	bed_send(a, to_b, 1, huge, size);
	tap_ok(await_end(a, huge, 0),
	       "a huge message without a receive does not hold its sender");
	bed_recv(b, to_a, 1, in, size);
	tap_ok(await_end(b, in, 0) && bed_check(in, size, 11),
	       "and are received whole");
	free(huge);
	free(in);
}

#define FLOOD 30000

/* Messages that nobody takes use up all credit; the one behind is wanted. */
static void test_flood(void)
{
	static char body[100], in[100];
	struct o2g_match to = bed_match(to_b, 90);
	struct o2g_event event;
	char last[] = "wanted", got[8] = "";
	int sent = 0, taken_now, good = 0;

	for (int i = 0; i < FLOOD; i++) {
		while (o2g_send(a, &to, body, sizeof(body), 0, 0, body))
			sent += o2g_poll(a, &event, 1);
	}
	to.tag = 91;
	while (o2g_send(a, &to, last, sizeof(last), 0, 0, last))
		sent += o2g_poll(a, &event, 1);
	bed_recv(b, to_a, 91, got, sizeof(got));
	tap_ok(await_end(b, got, 0) && strcmp(got, "wanted") == 0,
	       "a message behind %d without a receive arrives", FLOOD);
	for (int i = 0; i < FLOOD; i++) {
		bed_recv(b, to_a, 90, in, sizeof(in));
		good += bed_event(b).status == 0;
		while ((taken_now = o2g_poll(a, &event, 1)) > 0)
			sent += taken_now;
	}
	while (sent < FLOOD + 1)
		sent += bed_event(a).status == 0;
	tap_ok(good == FLOOD, "the messages without a receive arrive later");
}

/* Neither side calls the library while 24 MB, beyond credit, go over: the
 * last byte in the buffer is the witness. */
static void nobody_calls(void)
{
	size_t size = 24 << 20;
	uint8_t *from = malloc(size), *to = malloc(size);
	time_t end = time(0) + 60;

	bed_fill(from, size, 3);
	to[size - 1] = (uint8_t)~from[size - 1];
	bed_send(a, to_b, 4, from, size);
	bed_recv(b, to_a, 4, to, size);
	while (bed_look(&to[size - 1]) != from[size - 1] && time(0) < end)
		usleep(1000);
	tap_ok(bed_check(to, size, 3),
	       "a message arrives completely while no call is made");
	TAP(await_end(a, from, 0) && await_end(b, to, 0));
	free(from);
	free(to);
}

/* The same for messages that were expected and come in order. Small bodies of
 * an engine with a slab come when the program takes them: these are larger. */
#define MANY 500

static size_t in_place_size(void)
{
	const char *asked = getenv("SKEP_O2G_ENGINE");
	int slab = strcmp(o2g_engine_name(b), "user") ||
		   (asked && strcmp(asked, "user-slab") == 0);

	return slab ? 9000 : 4;
}

static int count_good(const uint8_t *in, size_t size)
{
	int good = 0;

	for (unsigned i = 0; i < MANY; i++)
		good += bed_check(in + i * size, size, i + 1);
	return good;
}

/* Takes an event for each of MANY buffers and counts the good ones. Their order
 * is nobody's promise: a send that had to ask for credit ends after later ones
 * that need less, or that came when there was some. */
static int count_ends(struct o2g *o2g, const uint8_t *first, size_t size)
{
	uint8_t seen[MANY] = {0};
	int good = 0, late = 0;
	size_t next = 0;

	for (unsigned i = 0; i < MANY; i++) {
		struct o2g_event event = bed_event(o2g);
		size_t at = (size_t)event.cookie - (size_t)first, n = at / size;

		late += n < next;
		next = n + 1;
		good += event.status == 0 && at % size == 0 && n < MANY &&
			!seen[n]++;
	}
	printf("# %d of %d ends came out of turn\n", late, MANY);
	return good;
}

static void many_while_computing(struct o2g *from, struct o2g *to, size_t size,
				 const char *name)
{
	const uint32_t there = bed_peer(from, to), here = bed_peer(to, from);
	uint8_t *in = calloc(MANY, size), *out = malloc(MANY * size);

	for (unsigned i = 0; i < MANY; i++) {
		bed_fill(out + i * size, size, i + 1);
		bed_recv(to, i % 2 ? here : O2G_ANY, 8, in + i * size, size);
		bed_send(from, there, 8, out + i * size, size);
	}
	for (time_t end = time(0) + 60;
	     count_good(in, size) < MANY && time(0) < end;)
		usleep(1000);
	tap_ok(count_good(in, size) == MANY,
	       "500 messages match in order while nobody calls%s", name);
	TAP(count_ends(from, out, size) == MANY);
	TAP(count_ends(to, in, size) == MANY);
	free(in);
	free(out);
}

/* Each message beyond the first waits for credit, or asks for it. */
static void many_beyond_credit(void)
{
	struct o2g_options options = bed_options();
	struct o2g *from, *to;

	options.credit = O2G_CREDIT_MIN;
	if (o2g_open(&from, &options) || o2g_open(&to, &options))
		bed_die("o2g_open");
	many_while_computing(from, to, 9000, ", beyond credit");
	TAP(o2g_close(from, 5000) == 0 && o2g_close(to, 5000) == 0);
}

static void test_peeks(void)
{
	struct o2g_match from = bed_match(to_a, 30);
	struct o2g_event event = {.status = -ENOMSG};
	char in[8] = "";

	TAP(o2g_peek(b, &from, 0, &from) == 0);
	event = bed_event(b);
	tap_ok(event.status == -ENOMSG && event.what == O2G_PEEKED &&
		       event.cookie == &from,
	       "a peek finds nothing");
	bed_send(a, to_b, 30, "claimed", 8);
	TAP(bed_event(a).status == 0);
	while (event.status == -ENOMSG) {
		if (o2g_peek(b, &from, O2G_CLAIM, 0))
			bed_die("peek");
		event = bed_event(b);
	}
	TAP(event.status == 0 && event.length == 8 && event.peer == to_a);
	TAP(o2g_recv_claimed(b, event.handle, in, sizeof(in), in) == 0);
	tap_ok(await_end(b, in, 0) && strcmp(in, "claimed") == 0,
	       "a claimed message is received by its handle");
	TAP(o2g_recv_claimed(b, event.handle, in, sizeof(in), in) == 0);
	tap_ok(bed_event(b).status == -ENOENT,
	       "a claimed message is received only once");
}

/* They have no event, so they must not count as one that ended. */
static void refused_orders(void)
{
	struct o2g_match from = bed_match(O2G_ANY, 77);
	struct o2g_event event;
	int i, r = 0;

	for (i = 0; i < 3; i++)
		r |= o2g_discard_claimed(a, 1234567);
	TAP(r == 0 && o2g_poll(a, &event, 1) == 0);
	for (i = 0; i < 3 && r == 0; i++)
		r = o2g_peek(a, &from, 0, 0);
	while (i-- > 0 && r == 0)
		r = bed_event(a).status != -ENOMSG;
	tap_ok(r == 0, "discarding unknown handles does no harm");
}

static void test_cancels(void)
{
	char one[4], two[4];

	bed_recv(b, to_a, 40, one, 4);
	bed_recv(b, O2G_ANY, 41, two, 4);
	TAP(o2g_cancel(b, one) == 0);
	tap_ok(await_end(b, one, -ECANCELED), "a receive is cancelled");
	TAP(o2g_cancel(b, one) == 0); /* does nothing */
	bed_send(a, to_b, 41, "abc", 4);
	tap_ok(await_end(b, two, 0), "another receive is not cancelled");
	TAP(bed_event(a).status == 0);
}

static void test_multi(void)
{
	struct o2g_match from = bed_match(O2G_ANY, 50);
	char buffer[64], out[10] = "0123456789";
	int stays = 0, right = 0;

	TAP(o2g_recv(b, &from, buffer, sizeof(buffer), 30, O2G_MULTI, buffer) ==
	    0);
	for (int i = 0; i < 4; i++)
		bed_send(a, to_b, 50, out, sizeof(out));
	for (int i = 0; i < 4; i++) {
		struct o2g_event event = bed_event(b);

		stays += !!(event.flags & O2G_STAYS_POSTED);
		right += event.where == buffer + 10 * i &&
			 memcmp(event.where, out, 10) == 0;
		TAP(bed_event(a).status == 0);
	}
	tap_ok(right == 4 && stays == 3, "a multi-receive takes four messages, "
					 "then its buffer is returned");
}

static void test_copies(void)
{
	struct o2g_match to = bed_match(to_b, 60);
	static char out[16384], in[16384];
	int good = 0, sent = 0;

	for (int i = 0; i < 200; i++) {
		size_t size = i % 2 ? sizeof(out) : 64;
		int r;

		bed_fill((uint8_t *)out, size, (unsigned)i);
		bed_recv(b, to_a, 60, in, size);
		do {
			struct o2g_event none;

			r = o2g_send(a, &to, out, size, 0, O2G_COPY | O2G_QUIET,
				     out);
			sent += o2g_poll(a, &none, 1);
		} while (r == -EAGAIN);
		memset(out, 0xff, sizeof(out));
		good += r == 0 && await_end(b, in, 0) &&
			bed_check((uint8_t *)in, size, (unsigned)i);
	}
	tap_ok(good == 200, "copied sends carry what the buffer held");
	tap_ok(sent == 0, "quiet sends have no event");
	TAP(o2g_send(a, &to, out, o2g_copy_max(a) + 1, 0, O2G_COPY, 0) ==
	    -EMSGSIZE);
	bed_recv(b, to_a, 60, in, 4);
	TAP(o2g_send(a, &to, "abc", 4, 0, O2G_COPY, &good) == 0);
	TAP(await_end(a, &good, 0) && await_end(b, in, 0));
}

static void to_itself(void)
{
	uint32_t self = bed_peer(a, a);
	static uint8_t out[100000], in[100000];

	bed_fill(out, sizeof(out), 1);
	bed_recv(a, self, 70, in, sizeof(in));
	bed_send(a, self, 70, out, sizeof(out));
	(void)bed_event(a);
	(void)bed_event(a);
	tap_ok(bed_check(in, sizeof(in), 1), "a message to oneself");
	memset(in, 0, sizeof(in));
	bed_send(a, self, 71, out, sizeof(out));
	bed_recv(a, O2G_ANY, 71, in, sizeof(in));
	(void)bed_event(a);
	(void)bed_event(a);
	tap_ok(bed_check(in, sizeof(in), 1),
	       "a message to oneself that precedes its receive");
}

#define SENDERS 6
#define EACH 300

static void *run_sender(void *arg)
{
	struct o2g *hub = arg, *me = bed_open();
	uint32_t to = bed_peer(me, hub);
	static __thread uint8_t out[3000];

	bed_fill(out, sizeof(out), 5);
	for (int i = 0; i < EACH; i++) {
		bed_send(me, to, (uint64_t)i, out, (size_t)i * 10);
		if (bed_event(me).status)
			bed_die("send to the hub");
	}
	if (o2g_close(me, 10000))
		bed_die("close of a sender");
	return 0;
}

static void many_to_one(void)
{
	pthread_t thread[SENDERS];
	static uint8_t in[3000];
	int good = 0, counts[EACH] = {0};

	for (int i = 0; i < SENDERS; i++)
		pthread_create(&thread[i], 0, run_sender, a);
	for (int i = 0; i < SENDERS * EACH; i++) {
		struct o2g_match any = {
			.peer = O2G_ANY, .context = 1, .ignore = ~0ull};
		struct o2g_event event;

		if (o2g_recv(a, &any, in, sizeof(in), 0, 0, 0))
			bed_die("recv");
		event = bed_event(a);
		good += event.status == 0 && event.length == event.tag * 10 &&
			event.peer == O2G_ANY &&
			bed_check(in, event.length, 5) &&
			++counts[event.tag] <= SENDERS;
	}
	for (int i = 0; i < SENDERS; i++)
		pthread_join(thread[i], 0);
	tap_ok(good == SENDERS * EACH,
	       "%d peers that were never added send to one", SENDERS);
}

/* Who sends before it is named is known once it is: also for what arrived. */
static void named_late(void)
{
	struct o2g *late = bed_open(), *early = bed_open();
	struct o2g_match any = {.peer = O2G_ANY, .context = 1, .ignore = ~0ull};
	struct o2g_event event = {.status = -ENOMSG};
	char in[2][6] = {"", ""};
	uint32_t peer;

	bed_send(early, bed_peer(early, late), 5, "early", 6);
	while (event.status == -ENOMSG) {
		if (o2g_peek(late, &any, 0, 0))
			bed_die("peek");
		event = bed_event(late);
	}
	TAP(event.peer == O2G_ANY);
	peer = bed_peer(late, early);
	bed_recv(late, peer, 5, in[0], 6);
	event = bed_event(late);
	tap_ok(event.status == 0 && event.peer == peer &&
		       strcmp(in[0], "early") == 0,
	       "a message that precedes its sender's name is matched to it");
	TAP(bed_event(early).status == 0);
	bed_recv(late, peer, 5, in[1], 6);
	bed_send(early, bed_peer(early, late), 5, "later", 6);
	tap_ok(bed_event(late).peer == peer && strcmp(in[1], "later") == 0,
	       "later messages of a named sender are matched to it");
	TAP(bed_event(early).status == 0);
	TAP(o2g_close(early, 1000) == 0);
	TAP(o2g_close(late, 1000) == 0);
}

/* The same for one that is gone by then. */
static void named_after_its_end(void)
{
	struct o2g *late = bed_open(), *early = bed_open();
	uint8_t name[O2G_NAME_SIZE];
	struct o2g_event event;
	char in[6] = "";
	int quiet = 0;
	uint32_t peer;

	bed_send(early, bed_peer(early, late), 5, "early", 6);
	TAP(bed_event(early).status == 0 && o2g_name(early, name) == 0);
	TAP(o2g_close(early, BED_WAIT) == 0);
	for (int i = 0; i < 1000; i++) /* reads to the end of the stream */
		quiet += o2g_poll(late, &event, 1) == 0;
	TAP(quiet == 1000 && o2g_peer(late, name, &peer) == 0);
	bed_recv(late, peer, 5, in, 6);
	event = bed_event(late);
	tap_ok(event.status == 0 && event.peer == peer &&
		       strcmp(in, "early") == 0,
	       "a message of a sender that ended before it was named is "
	       "matched to it");
	bed_recv(late, peer, 5, in, 6);
	tap_ok(bed_event(late).status == -ESHUTDOWN,
	       "the end of a sender that was named later is known");
	TAP(o2g_close(late, 1000) == 0);
}

/* With two connections: an engine with one may read it as it is driven. */
static struct o2g *open_short(struct o2g *from, struct o2g *other)
{
	struct o2g_options options = bed_options();
	static uint8_t first[3];
	struct o2g *to;

	options.unexpected = 1 << 20;
	if (o2g_open(&to, &options))
		bed_die("o2g_open");
	bed_recv(to, bed_peer(to, from), 1, &first[0], 1);
	bed_recv(to, bed_peer(to, other), 1, &first[1], 1);
	bed_send(from, bed_peer(from, to), 1, &first[2], 1);
	bed_send(other, bed_peer(other, to), 1, &first[2], 1);
	bed_event(to);
	bed_event(to);
	bed_event(from);
	return to;
}

/* A message without a body that comes when there is no memory, the last of its
 * sender. The memory is full of messages to itself. */
static void begins_late(void)
{
	struct o2g *from = bed_open(), *other = bed_open();
	struct o2g *to = open_short(from, other);
	const uint32_t self = bed_peer(to, to), at_from = bed_peer(to, from);
	static uint8_t body[10000], in[10000], end;
	struct o2g_event event;
	int events = 0;

	for (int i = 0; i < 140; i++)
		bed_send(to, self, 2, body, i < 100 ? sizeof(body) : 1);
	bed_send(from, bed_peer(from, to), 3, &end, 0);
	TAP(await_end(from, &end, 0));
	for (int i = 0; i < 1000; i++)
		events += o2g_poll(to, &event, 1);
	for (int i = 0; i < 140; i++)
		bed_recv(to, self, 2, in, sizeof(in));
	for (; events < 2 * 140; events++)
		bed_event(to);
	bed_recv(to, at_from, 3, &end, 0);
	tap_ok(await_end(to, &end, 0),
	       "a message begins when memory is free again");
	o2g_close(from, 0);
	o2g_close(other, 0);
	o2g_close(to, 0);
}

/* A second thread wakes one that waits; a wait sleeps. */
static void *run_waker(void *arg)
{
	usleep(50000);
	o2g_wake(arg);
	return 0;
}

static void test_waits(void)
{
	struct o2g_event event;
	pthread_t thread;
	double before, used;

	TAP(o2g_wait(b, &event, 1, 0) == 0);
	before = bed_cpu_seconds();
	TAP(o2g_wait(b, &event, 1, 1000) == 0);
	used = bed_cpu_seconds() - before;
	printf("# a wait of a second took %.1f %% of a core\n", used * 100);
	tap_ok(used < 0.3, "a wait of a second sleeps");
	pthread_create(&thread, 0, run_waker, b);
	tap_ok(o2g_wait(b, &event, 1, BED_WAIT) == -EINTR,
	       "o2g_wake() ends a wait");
	pthread_join(thread, 0);
	before = bed_cpu_seconds();
	usleep(1000000);
	used = bed_cpu_seconds() - before;
	printf("# an unused second took %.1f %% of a core\n", used * 100);
	tap_ok(used < 0.3, "an endpoint that nobody uses sleeps");
}

/* ---- loops that can only poll ---- */

#ifndef __SANITIZE_THREAD__
static void test_naps(void)
{
	struct rusage before, after, all, all_after;
	double start, cpu = bed_cpu_seconds();
	volatile unsigned work = 0;
	struct o2g_event event;
	struct timespec t;

	getrusage(RUSAGE_THREAD, &before);
	getrusage(RUSAGE_SELF, &all);
	clock_gettime(CLOCK_MONOTONIC, &t);
	start = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	do {
		if (o2g_poll(b, &event, 1))
			bed_die("an event from nowhere");
		o2g_nap(b);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < start + 1);
	cpu = bed_cpu_seconds() - cpu;
	getrusage(RUSAGE_THREAD, &after);
	getrusage(RUSAGE_SELF, &all_after);
	printf("# a loop that only polls took %.1f %% of a core\n", cpu * 100);
	tap_ok(after.ru_nvcsw - before.ru_nvcsw >= 20,
	       "a loop that only polls sleeps for short times");
	/* Of a thousand milliseconds. */
	tap_ok(all_after.ru_nvcsw - all.ru_nvcsw -
			       (after.ru_nvcsw - before.ru_nvcsw) <
		       500,
	       "the engine's thread does not wake each millisecond then");
	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < 2000; i++) {
		o2g_poll(b, &event, 1);
		o2g_nap(b);
		for (int j = 0; j < 100000; j++)
			work += (unsigned)j;
	}
	getrusage(RUSAGE_THREAD, &after);
	tap_ok(after.ru_nvcsw - before.ru_nvcsw < 100,
	       "a loop that does other work does not sleep (%ld sleeps)",
	       after.ru_nvcsw - before.ru_nvcsw);
}
#endif

/* ---- many small messages one after the other ---- */

#define BURST 64

/* TCP segments with data that this process has sent so far. */
static long tcp_segments(void)
{
	long sum = 0;

	for (int fd = 3; fd < 256; fd++) {
		struct tcp_info info = {0};
		socklen_t size = sizeof(info);

		if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
			sum += info.tcpi_data_segs_out;
	}
	return sum;
}

/* From a program that polls all the time and so drives by itself; only its
 * thread is there after the last message. */
static long send_burst(uint8_t *out, uint8_t *in, int *received_all,
		       int *sent_all)
{
	struct o2g_event event;
	long before;

	for (int i = 0; i < BURST; i++)
		bed_recv(b, to_a, 50u + (unsigned)i, in + i, 1);
	for (int i = 0; i < 2000; i++)
		if (o2g_poll(a, &event, 1))
			bed_die("an event of nothing");
	before = tcp_segments();
	for (int i = 0; i < BURST; i++)
		bed_send(a, to_b, 50u + (unsigned)i, out + i, 1);
	for (int i = 0; i < BURST; i++)
		received_all[i] &= await_end(b, in + i, 0);
	before = tcp_segments() - before;
	for (int i = 0; i < BURST; i++)
		sent_all[i] &= await_end(a, out + i, 0);
	return before;
}

static void test_bursts(void)
{
	const int user = !strcmp(o2g_engine_name(a), "user");
	int received_all[BURST], sent_all[BURST];
	uint8_t out[BURST], in[BURST] = {0};
	time_t end = time(0) + 60;
	long sent;

	bed_fill(out, BURST, 3);
	for (int i = 0; i < BURST; i++)
		received_all[i] = sent_all[i] = 1;
	do /* a busy machine may keep us from polling */
		sent = send_burst(out, in, received_all, sent_all);
	while (user && sent > BURST / 2 && time(0) < end);
	/* As many tests, however often it was tried. */
	for (int i = 0; i < BURST; i++) {
		TAP(received_all[i]);
		TAP(sent_all[i]);
	}
	tap_ok(bed_check(in, BURST, 3) && (!user || sent <= BURST / 2),
	       "%d messages in a row go in %ld segments", BURST, sent);
}

/* ---- several threads at one endpoint ---- */

#define TALKERS 4
#define TALKS 400

static int received[TALKERS][TALKS]; /* atomic */
static int taken;		     /* atomic: events of both ends */

static void count_event(const struct o2g_event *event)
{
	__atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
	if (event->what == O2G_RECEIVED && event->status == 0)
		__atomic_add_fetch((int *)event->cookie, 1, __ATOMIC_RELAXED);
}

static void *run_talker(void *arg)
{
	int me = (int)(size_t)arg;
	static int bodies[TALKERS][TALKS];
	struct o2g *from = me % 2 ? a : b, *to = me % 2 ? b : a;
	uint32_t there = me % 2 ? to_b : to_a;

	for (int i = 0; i < TALKS; i++) {
		struct o2g_match any = bed_match(O2G_ANY, 100u + (unsigned)me);
		struct o2g_event event[3];
		int n;

		if (o2g_recv(to, &any, &bodies[me][i], sizeof(int), 0, 0,
			     &received[me][i]))
			bed_die("recv of a talker");
		bed_send(from, there, any.tag, &me, sizeof(me));
		n = o2g_wait(from, event, 3, 1);
		while (n-- > 0)
			count_event(&event[n]);
	}
	return 0;
}

static void test_threads(void)
{
	pthread_t thread[TALKERS];
	struct o2g_event event;
	int good = 0, all = 2 * TALKERS * TALKS;
	time_t end = time(0) + 60;

	for (size_t i = 0; i < TALKERS; i++)
		pthread_create(&thread[i], 0, run_talker, (void *)i);
	for (int i = 0; i < TALKERS; i++)
		pthread_join(thread[i], 0);
	while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < all &&
	       time(0) < end) {
		if (o2g_wait(a, &event, 1, 1) == 1)
			count_event(&event);
		if (o2g_wait(b, &event, 1, 1) == 1)
			count_event(&event);
	}
	for (int i = 0; i < TALKERS * TALKS; i++)
		good += received[i / TALKS][i % TALKS] == 1;
	tap_ok(good == TALKERS * TALKS && taken == all,
	       "%d threads share two endpoints: each event came once", TALKERS);
}

int main(void)
{
	open_pair();
	test_sizes();
	tags_and_data();
	huge_then_small();
	huge_alone();
	test_flood();
	nobody_calls();
	many_while_computing(a, b, in_place_size(), "");
	many_beyond_credit();
	test_peeks();
	refused_orders();
	test_cancels();
	test_multi();
	test_copies();
	to_itself();
	many_to_one();
	named_late();
	named_after_its_end();
	begins_late();
	test_waits();
	test_bursts();
#ifndef __SANITIZE_THREAD__ /* which makes each poll a late one */
	test_naps();
#endif
	test_threads();
	close_pair();
	return tap_done();
}
