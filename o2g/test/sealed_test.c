// SPDX-License-Identifier: MIT
/*
 * Encrypted connections, with somebody in the middle: the test itself carries
 * the bytes between two endpoints, looks at all of them, and changes, cuts,
 * repeats and returns some. usage: sealed_test [ENGINE [ENGINE]], of the two
 * endpoints; by default both are `user`. The module says in the kernel's log
 * what the library says on standard error.
 */
#define _GNU_SOURCE /* accept4, memmem */
#include "bed.h"

#include <o2g/lib/endpoint.h>
#include <o2g/user/engine.h>
#include <skep/o2g_wire.h>
#include <tests/tap.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define LOG (8u << 20)
#define LONG 1000000u
#define SMALL 200u

/* What each side says during the opening: hello and proof, challenge and
 * welcome. Endpoint 0 is the connector. */
static const u32 opening[2] = {
	sizeof(struct o2g_hello) + sizeof(struct o2g_proof),
	sizeof(struct o2g_challenge) + sizeof(struct o2g_welcome)};

/* One direction, from endpoint `i` to the other. */
struct way {
	u8 *log; /* all bytes that the endpoint sent */
	u32 length;
	u32 flip;   /* this byte after the opening is changed; 0: none */
	u32 cut;    /* the stream ends before this one; 0: it does not */
	u32 junk;   /* this many bytes more come at the end */
	u32 twice;  /* this many bytes after the opening come twice; 0: none */
	int closed; /* nothing more is carried */
};

static struct {
	struct o2g *end[2];
	uint32_t peer[2]; /* what each calls the other */
	int ours[2];	  /* our end of each one's socket */
	struct way way[2];
} m;

static const char *engines[2] = {"user", "user"};
static int kernel_log = -1;

static int is_kernel(int i)
{
	return !strcmp(engines[i], "kernel");
}

static int tcp_pair(int pair[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int good = bind(listener, (struct sockaddr *)&at, size) == 0 &&
		   listen(listener, 1) == 0 &&
		   getsockname(listener, (struct sockaddr *)&at, &size) == 0;

	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	good = good && connect(pair[0], (struct sockaddr *)&at, size) == 0;
	pair[1] = good ? accept4(listener, 0, 0, SOCK_CLOEXEC) : -1;
	close(listener);
	return pair[1] >= 0;
}

static int buffers; /* of the sockets, in bytes; 0: the kernel's choice */

static void limit_buffers(int socket)
{
	if (buffers && (setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffers,
				   sizeof(buffers)) ||
			setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffers,
				   sizeof(buffers))))
		bed_die("setsockopt");
}

static void open_middle(u32 encrypt_0, u32 encrypt_1)
{
	const u32 encrypt[2] = {encrypt_0, encrypt_1};
	int pair[2][2];

	for (int i = 0; i < 2; i++) {
		struct o2g_options options = bed_options();

		options.encrypt = encrypt[i];
		options.engine = engines[i];
		if (o2g_open(&m.end[i], &options) || !tcp_pair(pair[i]))
			bed_die("open");
		free(m.way[i].log);
		m.way[i] = (struct way){.log = malloc(LOG)};
		m.ours[i] = pair[i][1];
		limit_buffers(pair[i][0]);
		limit_buffers(pair[i][1]);
	}
	for (int i = 0; i < 2; i++) {
		m.peer[i] = bed_peer(m.end[i], m.end[!i]);
		if (o2g_register_socket(m.end[i], pair[i][0], m.peer[i],
					i == 0))
			bed_die("register");
	}
}

/* The endpoints may have lost each other. */
static void close_middle(void)
{
	for (int i = 0; i < 2; i++)
		close(m.ours[i]);
	for (int i = 0; i < 2; i++)
		o2g_close(m.end[i], 0);
}

/* ---- carrying ---- */

static void give_bytes(int to, const u8 *from, u32 length)
{
	u32 done = 0;

	while (done < length) {
		const ssize_t n = send(m.ours[to], from + done, length - done,
				       MSG_NOSIGNAL);

		if (n <= 0)
			return; /* it has closed the connection */
		done += (u32)n;
	}
}

/* Carries what lies in the log from `at` on, changed as asked for. */
static void give_on(int from, u32 at)
{
	struct way *way = &m.way[from];
	u32 end = way->length;

	if (way->flip && at <= opening[from] + way->flip - 1 &&
	    end > opening[from] + way->flip - 1)
		way->log[opening[from] + way->flip - 1] ^= 0x40;
	if (way->cut && end > opening[from] + way->cut - 1) {
		end = opening[from] + way->cut - 1;
		way->closed = 1;
	}
	if (end > at)
		give_bytes(!from, way->log + at, end - at);
	if (way->twice && end >= opening[from] + way->twice) {
		give_bytes(!from, way->log + opening[from], way->twice);
		way->twice = 0;
	}
	if (way->closed)
		give_bytes(!from, (const u8 *)"junk", way->junk);
	if (way->closed)
		shutdown(m.ours[!from], SHUT_WR);
}

/* Whether there was something to carry. */
static int carry_way(int from)
{
	struct way *way = &m.way[from];
	const u32 at = way->length;
	const ssize_t n =
		recv(m.ours[from], way->log + at, LOG - at, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		way->closed = 1;
	else
		way->length += (u32)n;
	give_on(from, at);
	return 1;
}

/* Carries until endpoint `at` has an event. */
static struct o2g_event carried_event(int at)
{
	struct o2g_event event;

	for (int tries = 0; tries < BED_WAIT; tries++) {
		struct pollfd file[2] = {{m.ours[0], POLLIN, 0},
					 {m.ours[1], POLLIN, 0}};
		int carried = 0;

		if (o2g_poll(m.end[at], &event, 1) == 1)
			return event;
		for (int i = 0; i < 2; i++)
			carried += !m.way[i].closed && carry_way(i);
		if (!carried)
			poll(file, 2, 1);
	}
	bed_die("no event came");
	return event;
}

/* A message of this length from one endpoint to the other: the status of its
 * receive. */
static int carry_message(int from, u8 *out, u8 *in, u32 length)
{
	int status;

	memset(in, 0, length);
	bed_recv(m.end[!from], m.peer[!from], 1, in, length);
	bed_send(m.end[from], m.peer[from], 1, out, length);
	status = carried_event(!from).status;
	return status ? status : carried_event(from).status;
}

/* ---- what lies on the wire ---- */

static u8 sent[LONG], got[LONG];

/* Whether some bytes of the message lie on the wire. */
static int wire_shows(const struct way *way, const u8 *message, u32 length)
{
	for (u32 at = 0; at + 16 <= length; at += 1000)
		if (memmem(way->log, way->length, message + at, 16))
			return 1;
	return 0;
}

/* Whether all bytes after the opening are records. Returns their number, or 0
 * if they are not. */
static u32 count_records(int from)
{
	const struct way *way = &m.way[from];
	u32 at = opening[from], count = 0;

	while (at + O2G_RECORD_HEAD < way->length) {
		u32 length;

		memcpy(&length, way->log + at, sizeof(length));
		if (!length || length > O2G_RECORD_TEXT)
			return 0;
		at += O2G_RECORD_HEAD + length + O2G_RECORD_TAG;
		count++;
	}
	return at == way->length ? count : 0;
}

static void test_secrecy(u32 encrypt)
{
	const char *how = encrypt ? "encrypted" : "plain";
	int shown = 0, arrived = 0;

	bed_fill(sent, LONG, 5);
	open_middle(encrypt, encrypt);
	for (int from = 0; from < 2; from++) {
		const u32 length = from ? SMALL : LONG;

		arrived += carry_message(from, sent, got, length) == 0 &&
			   bed_check(got, length, 5);
		shown += wire_shows(&m.way[from], sent, length);
	}
	tap_ok(arrived == 2, "%s messages arrive", how);
	tap_ok(shown == (encrypt ? 0 : 2), "their bytes %s on the wire",
	       encrypt ? "do not lie" : "lie");
	for (int from = 0; from < 2; from++)
		tap_ok(!count_records(from) == !encrypt,
		       "what %s endpoint %d sends %s in records", how, from,
		       encrypt ? "is" : "is not");
	close_middle();
}

/* Records go out in parts: no socket holds the four that are sealed at once. */
static void test_parts(void)
{
	bed_fill(sent, LONG, 9);
	buffers = 0x4000;
	open_middle(1, 1);
	buffers = 0;
	tap_ok(carry_message(0, sent, got, LONG) == 0 &&
		       bed_check(got, LONG, 9),
	       "records arrive that are sent in parts");
	close_middle();
}

/* Two connections of one job, and one message: nothing on the wire is equal. */
static void test_repetition(void)
{
	static u8 before[64];
	const u32 at = opening[0] + O2G_RECORD_HEAD;

	for (int i = 0; i < 2; i++) {
		open_middle(1, 1);
		TAP(carry_message(0, sent, got, SMALL) == 0);
		if (i == 0)
			memcpy(before, m.way[0].log + at, sizeof(before));
		else
			tap_ok(memcmp(before, m.way[0].log + at,
				      sizeof(before)),
			       "each connection has keys of its own");
		close_middle();
	}
}

#ifndef __SANITIZE_THREAD__ /* there it takes ten times as long */

/* Which a guest with emulated processors takes a minute for. */
static int is_long(void)
{
	const char *text = getenv("SKEP_O2G_LONG");

	return text && *text;
}

/* A connection outlives its first keys. Each message of a direction waits for
 * the one before it, so each has a record of its own. */
static void test_key_change(void)
{
	u32 wrong = 0;

	open_middle(1, 1);
	for (u32 i = 0; i < O2G_RECORD_KEY + 100; i++) {
		u32 out[2] = {i, ~i}, in[2] = {~i, i};

		for (int from = 0; from < 2; from++) {
			bed_recv(m.end[!from], m.peer[!from], 1, &in[from],
				 sizeof(u32));
			bed_send(m.end[from], m.peer[from], 1, &out[from],
				 sizeof(u32));
		}
		for (int k = 0; k < 4; k++)
			wrong += carried_event(k & 1).status != 0;
		wrong += in[0] != i || in[1] != ~i;
	}
	tap_ok(!wrong, "messages arrive before and after a change of keys");
	for (int from = 0; from < 2; from++)
		tap_ok(count_records(from) > O2G_RECORD_KEY,
		       "endpoint %d has sent more records than a key seals",
		       from);
	close_middle();
}

#endif

/* ---- attacks ---- */

/* Standard error goes to a file meanwhile. */
static FILE *errors;
static int errors_before;

static void catch_errors(void)
{
	errors = tmpfile();
	errors_before = dup(STDERR_FILENO);
	dup2(fileno(errors), STDERR_FILENO);
}

/* Whether the kernel has said it since the last look. */
static int log_says(const char *what)
{
	char line[8192];
	int found = 0;
	ssize_t n;

	while (kernel_log >= 0 &&
	       ((n = read(kernel_log, line, sizeof(line) - 1)) > 0 ||
		errno == EPIPE)) {
		line[n > 0 ? n : 0] = 0;
		found |= strstr(line, what) != 0;
	}
	return found;
}

static int caught_error(const char *what)
{
	static char text[4096];
	size_t n;

	fflush(stderr);
	dup2(errors_before, STDERR_FILENO);
	close(errors_before);
	rewind(errors);
	n = fread(text, 1, sizeof(text) - 1, errors);
	text[n] = 0;
	fclose(errors);
	return log_says(what) || strstr(text, what) != 0;
}

/* The other end of the way gets nothing, and learns that the peer is lost. */
static int nothing_arrives(int from, u32 length)
{
	const int status = carry_message(from, sent, got, length);

	for (u32 i = 0; i < length; i++)
		if (got[i])
			return 0;
	return status == -ECONNRESET;
}

static void test_flips(void)
{
	const u32 record =
		O2G_RECORD_HEAD + O2G_FRAME_SIZE + SMALL + O2G_RECORD_TAG;
	/* of the head, the frame, the body and the tag */
	const u32 at[] = {1, 3, 5, 40, 60, record - 17, record - 15, record};
	u32 passed = 0, silent = 0;

	bed_fill(sent, SMALL, 5);
	for (u32 i = 0; i < 2 * sizeof(at) / sizeof(at[0]); i++) {
		const int from = i & 1;

		open_middle(1, 1);
		m.way[from].flip = at[i / 2];
		catch_errors();
		passed += !nothing_arrives(from, SMALL);
		silent += !caught_error(
			"it was changed on its way, and the connection ends");
		close_middle();
	}
	tap_ok(!passed, "a record with a changed byte brings nothing");
	/* the kernel says it ten times in five seconds, and no more */
	tap_ok(kernel_log < 0 ? !silent : silent <= 6,
	       "and ends the connection with a line that says why");
}

/* A record comes again: it is not taken for the one after it. */
static void test_replay(void)
{
	const u32 record =
		O2G_RECORD_HEAD + O2G_FRAME_SIZE + SMALL + O2G_RECORD_TAG;
	u8 second[SMALL] = {0};

	bed_fill(sent, SMALL, 5);
	open_middle(1, 1);
	m.way[0].twice = record;
	bed_recv(m.end[1], m.peer[1], 1, got, SMALL);
	bed_recv(m.end[1], m.peer[1], 1, second, SMALL);
	bed_send(m.end[0], m.peer[0], 1, sent, SMALL);
	catch_errors();
	tap_ok(carried_event(1).status == 0 && bed_check(got, SMALL, 5),
	       "a message arrives");
	tap_ok(carried_event(1).status == -ECONNRESET && !second[0],
	       "its record, repeated, does not bring it again");
	/* the kernel has said enough */
	TAP(caught_error("a record that does not verify") || kernel_log >= 0);
	close_middle();
}

/* The stream ends between two records, or inside one. */
static void test_cuts(void)
{
	const u32 record =
		O2G_RECORD_HEAD + O2G_FRAME_SIZE + SMALL + O2G_RECORD_TAG;
	const u32 at[] = {1, 3, record - 1, record};
	u32 passed = 0;

	for (u32 i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		open_middle(1, 1);
		m.way[0].cut = at[i];
		passed += !nothing_arrives(0, SMALL);
		close_middle();
	}
	tap_ok(!passed, "a record that is cut brings nothing");
	open_middle(1, 1);
	m.way[0].cut = record + 1;
	TAP(carry_message(0, sent, got, SMALL) == 0);
	bed_recv(m.end[1], m.peer[1], 1, got, SMALL);
	bed_send(m.end[0], m.peer[0], 1, sent, SMALL);
	tap_ok(carried_event(1).status == -ECONNRESET,
	       "a stream that ends after a record has failed");
	close_middle();
}

/* Bytes behind the last record, which says that the peer leaves. */
static void test_junk(void)
{
	for (u32 junk = 0; junk < 4; junk += 3) {
		open_middle(1, 1);
		m.way[0].junk = junk;
		TAP(carry_message(0, sent, got, SMALL) == 0);
		bed_recv(m.end[1], m.peer[1], 1, got, SMALL);
		o2g_close(m.end[0], 1000);
		tap_ok(carried_event(1).status ==
			       (junk ? -ECONNRESET : -ESHUTDOWN),
		       "a peer leaves%s",
		       junk ? ", and bytes behind its last record are noticed"
			    : "");
		m.end[0] = bed_open();
		close_middle();
	}
}

/* ---- a receiver without memory ---- */

#define SENDERS 40
#define EACH 60 /* messages, which the least credit allows */

/* Whether the engine does not read a connection for lack of memory. */
static int engine_blocked(struct o2g *o2g)
{
	struct o2g_device_counts counts = {0};
	int blocked;

	if (is_kernel(1)) {
		o2g->ops->module(o2g->engine, &counts);
		return counts.stopped_reading > 0;
	}
	pthread_mutex_lock(&o2g->engine->lock);
	blocked = o2g->engine->blocked > 0;
	pthread_mutex_unlock(&o2g->engine->lock);
	return blocked;
}

static struct o2g *open_sealed(const char *engine, uint64_t unexpected)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	options.encrypt = 1;
	options.engine = engine;
	options.unexpected = unexpected;
	if (o2g_open(&o2g, &options))
		bed_die("open");
	return o2g;
}

/* Records that had arrived when the core stopped accepting are decrypted when
 * it goes on. */
static void test_blocked(void)
{
	static char none;
	struct o2g *all[SENDERS], *receiver = open_sealed(engines[1], 1 << 20);
	u32 wrong = 0;

	for (u32 i = 0; i < SENDERS; i++) {
		all[i] = open_sealed(engines[0], 0);
		for (u32 k = 0; k < EACH; k++)
			bed_send(all[i], bed_peer(all[i], receiver), 1, &none,
				 0);
	}
	for (u32 i = 0; i < SENDERS * EACH; i++)
		wrong += bed_event(all[i / EACH]).status != 0;
	for (u32 i = 0; i < BED_WAIT && !engine_blocked(receiver); i++)
		poll(0, 0, 1);
	tap_ok(engine_blocked(receiver) && !wrong,
	       "a receiver without memory stops reading");
	for (u32 i = 0; i < SENDERS * EACH; i++)
		bed_recv(receiver, O2G_ANY, 1, &none, 0);
	for (u32 i = 0; i < SENDERS * EACH; i++)
		wrong += bed_event(receiver).status != 0;
	tap_ok(!wrong, "and receives all records once it has some");
	for (u32 i = 0; i < SENDERS; i++)
		wrong += o2g_close(all[i], 1000) != 0;
	TAP(o2g_close(receiver, 1000) == 0 && !wrong);
}

/* ---- peers that differ ---- */

static void test_mixed(void)
{
	for (u32 i = 0; i < 2; i++) {
		struct o2g *end[2];
		char byte = 0;

		for (u32 k = 0; k < 2; k++) {
			struct o2g_options options = bed_options();

			options.encrypt = k == i;
			options.engine = engines[k];
			if (o2g_open(&end[k], &options))
				bed_die("open");
		}
		catch_errors();
		bed_send(end[0], bed_peer(end[0], end[1]), 1, &byte, 1);
		tap_ok(bed_event(end[0]).status == -EOPNOTSUPP,
		       "%s process does not talk to %s one",
		       i ? "a plain" : "an encrypting",
		       i ? "an encrypting" : "a plain");
		tap_ok(caught_error(
			       i ? "the peer encrypts, and this process does "
				   "not: set SKEP_O2G_ENCRYPT=yes"
				 : "the peer does not encrypt, and this "
				   "process does: set SKEP_O2G_ENCRYPT=yes"),
		       "and says what to do");
		for (u32 k = 0; k < 2; k++)
			o2g_close(end[k], 0);
	}
}

static void test_settings(void)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	setenv("SKEP_O2G_ENCRYPT", "maybe", 1);
	tap_ok(o2g_open(&o2g, &options) == -EINVAL &&
		       strstr(o2g_error(), "want yes or no"),
	       "a value that is neither yes nor no is refused");
	setenv("SKEP_O2G_ENCRYPT", "no", 1);
	TAP(o2g_open(&o2g, &options) == 0 && o2g_close(o2g, 0) == 0);
	unsetenv("SKEP_O2G_ENCRYPT");
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 2 && argc > 1; i++)
		engines[i] = argv[i + 1 < argc ? i + 1 : 1];
	if (is_kernel(0) || is_kernel(1)) {
		kernel_log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
		if (kernel_log < 0 || lseek(kernel_log, 0, SEEK_END) < 0)
			bed_die("/dev/kmsg");
	}
	unsetenv("SKEP_O2G_ENCRYPT");
	test_secrecy(1);
	test_secrecy(0);
	test_parts();
	test_repetition();
#ifndef __SANITIZE_THREAD__
	if (kernel_log < 0 || is_long())
		test_key_change();
#endif
	test_flips();
	test_replay();
	test_cuts();
	test_junk();
	test_blocked();
	test_mixed();
	test_settings();
	for (int i = 0; i < 2; i++)
		free(m.way[i].log);
	return tap_done();
}
