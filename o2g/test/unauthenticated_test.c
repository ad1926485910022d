// SPDX-License-Identifier: MIT
/*
 * Who gets in and who does not: unauthenticated peers of all kinds at an
 * endpoint's port, and the tie-break of simultaneous connects.
 */
#define _GNU_SOURCE /* accept4 */
#include "bed.h"

#include <o2g/lib/hmac.h>
#include <o2g/lib/opening.h>
#include <tests/tap.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

static struct o2g *victim;
static uint8_t name[O2G_NAME_SIZE];

static struct o2g_identity make_identity(const char *secret_seed, u8 id)
{
	struct o2g_identity self;
	u8 secret[32];
	struct o2g_id me;

	for (int i = 0; i < 32; i++)
		secret[i] = (u8)(secret_seed ? secret_seed[0] : i);
	memset(&me, id, sizeof(me));
	if (!id)
		me.byte[15] = 1; /* all zero is no id */
	o2g_identity_make(&self, secret, &me);
	self.location = (struct o2g_location){.family = 4, .port = 9};
	return self;
}

static struct o2g_id victim_id(void)
{
	struct o2g_id id;

	memcpy(&id, name + 24, sizeof(id));
	return id;
}

static void connect_to(int fd)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	to.sin_port = htons((uint16_t)(name[2] | name[3] << 8));
	memcpy(&to.sin_addr, name + 8, 4);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		bed_die("connect");
}

static int dial_victim(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		bed_die("socket");
	connect_to(fd);
	return fd;
}

static int send_bytes(int fd, const void *bytes, size_t length)
{
	return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* Bytes until the end of the stream; -1 when it stays open. */
static int receive_bytes(int fd, void *bytes, int most)
{
	int n = 0;

	while (n < most) {
		struct pollfd file = {.fd = fd, .events = POLLIN};
		ssize_t r;

		if (poll(&file, 1, BED_WAIT) <= 0)
			return -1;
		r = recv(fd, (char *)bytes + n, (size_t)(most - n), 0);
		if (r <= 0)
			break;
		n += (int)r;
	}
	return n;
}

/* True if the other side ends the stream without a further word. */
static int sent_away(int fd)
{
	char byte;

	return receive_bytes(fd, &byte, 1) == 0;
}

static void test_garbage(void)
{
	char junk[200];
	int fd = dial_victim();

	memset(junk, 'x', sizeof(junk));
	TAP(send_bytes(fd, junk, sizeof(junk)));
	tap_ok(sent_away(fd), "garbage is refused");
	close(fd);
	fd = dial_victim();
	TAP(send_bytes(fd, "GET / HTTP/1.0\r\n\r\n", 18));
	shutdown(fd, SHUT_WR);
	tap_ok(sent_away(fd),
	       "an unauthenticated peer with a short frame is refused");
	close(fd);
}

static struct o2g_opening make_hello(const struct o2g_identity *self)
{
	static u8 nonce[16] = {1, 2, 3};
	struct o2g_opening o;
	struct o2g_id to = victim_id();

	o2g_opening_dial(&o, self, &to, O2G_CREDIT_MIN, nonce);
	return o;
}

static void wrong_job(void)
{
	struct o2g_identity other = make_identity("z", 7);
	struct o2g_opening o = make_hello(&other);
	int fd = dial_victim();

	TAP(send_bytes(fd, o.out, o.out_length));
	tap_ok(sent_away(fd), "another job's endpoint is refused");
	close(fd);
}

/* Knows the job's public name, has heard an opening, has no secret. */
static void no_secret(void)
{
	struct o2g_identity self = make_identity(0, 7);
	struct o2g_identity liar = self;
	struct o2g_opening o;
	int fd = dial_victim(), step;
	u8 *at;

	memset(liar.secret, 1, sizeof(liar.secret));
	o = make_hello(&liar);
	TAP(send_bytes(fd, o.out, o.out_length));
	TAP(receive_bytes(fd, &o.challenge, sizeof(o.challenge)) ==
	    sizeof(o.challenge));
	o.proof.credit = O2G_CREDIT_MIN;
	memset(o.proof.mac, 5, sizeof(o.proof.mac));
	TAP(send_bytes(fd, &o.proof, sizeof(o.proof)));
	tap_ok(sent_away(fd),
	       "a well-formed opening without the secret is refused");
	close(fd);

	/* the challenge of the victim does not convince the liar either */
	fd = dial_victim();
	o = make_hello(&liar);
	TAP(send_bytes(fd, o.out, o.out_length));
	TAP(receive_bytes(fd, at = (u8 *)&o.challenge, sizeof(o.challenge)) >
	    0);
	(void)at;
	step = o2g_opening_took(&o, sizeof(o.challenge));
	tap_ok(step == -EACCES,
	       "a connector refuses an acceptor without the secret");
	close(fd);
}

/* Repeats what a real opening sent. */
static void test_replayed(void)
{
	struct o2g_identity self = make_identity(0, 9);
	struct o2g_opening o = make_hello(&self);
	struct o2g_proof proof;
	u8 first[sizeof(struct o2g_hello)];
	u8 challenge[sizeof(struct o2g_challenge)];
	int fd = dial_victim();

	memcpy(first, o.out, sizeof(first));
	TAP(send_bytes(fd, o.out, o.out_length));
	TAP(receive_bytes(fd, &o.challenge, sizeof(o.challenge)) ==
	    sizeof(o.challenge));
	TAP(o2g_opening_took(&o, sizeof(o.challenge)) == O2G_OPENING_MORE);
	memcpy(&proof, o.out, sizeof(proof));
	close(fd); /* the real one never proved itself */

	fd = dial_victim();
	TAP(send_bytes(fd, first, sizeof(first)));
	TAP(receive_bytes(fd, challenge, sizeof(challenge)) ==
	    sizeof(challenge));
	TAP(send_bytes(fd, &proof, sizeof(proof)));
	tap_ok(sent_away(fd), "a replayed hello and proof are refused");
	close(fd);
}

static void wrong_revision(void)
{
	struct o2g_identity self = make_identity(0, 7);
	struct o2g_opening o = make_hello(&self), mine = o;
	struct o2g_challenge answer;
	int fd = dial_victim(), step;

	((struct o2g_hello *)o.out)->revision = 99;
	TAP(send_bytes(fd, o.out, o.out_length));
	TAP(receive_bytes(fd, &answer, sizeof(answer)) == sizeof(answer));
	tap_ok(answer.magic == O2G_WIRE_MAGIC &&
		       answer.revision == O2G_WIRE_REVISION &&
		       answer.credit == 0,
	       "a wrong revision gets the right one");
	TAP(sent_away(fd));
	close(fd);
	answer.revision = 99;
	mine.challenge = answer;
	step = o2g_opening_took(&mine, sizeof(answer));
	tap_ok(step == -EPROTONOSUPPORT && mine.revision == 99,
	       "a connector learns the other's revision");
}

/* Somebody of the job, byte by byte: still slow, yet welcome. */
static void slow_friend(void)
{
	struct o2g_identity self = make_identity(0, 11);
	struct o2g_opening o = make_hello(&self);
	int fd = dial_victim(), good = 1;

	for (u32 i = 0; i < o.out_length; i++)
		good &= send_bytes(fd, o.out + i, 1);
	TAP(receive_bytes(fd, &o.challenge, sizeof(o.challenge)) ==
	    sizeof(o.challenge));
	TAP(o2g_opening_took(&o, sizeof(o.challenge)) == O2G_OPENING_MORE);
	for (u32 i = 0; i < o.out_length; i++)
		good &= send_bytes(fd, o.out + i, 1);
	TAP(good && receive_bytes(fd, &o.welcome, sizeof(o.welcome)) ==
			    sizeof(o.welcome));
	tap_ok(o2g_opening_took(&o, sizeof(o.welcome)) == O2G_OPENING_WELCOME,
	       "an opening with the secret succeeds, also byte by byte");
	close(fd);
}

/* A message between the victim and a new endpoint, both ways. */
static int victim_works(void)
{
	struct o2g *other = bed_open();
	uint32_t there = bed_peer(other, victim);
	char in[6] = "", back[6] = "";
	int ok;

	bed_recv(victim, O2G_ANY, 1, in, sizeof(in));
	bed_send(other, there, 1, "hello", 6);
	ok = bed_event(victim).status == 0 && strcmp(in, "hello") == 0 &&
	     bed_event(other).status == 0;
	bed_recv(other, there, 2, back, sizeof(back));
	bed_send(victim, bed_peer(victim, other), 2, "again", 6);
	ok = ok && bed_event(other).status == 0 && strcmp(back, "again") == 0;
	ok = ok && bed_event(victim).status == 0;
	return o2g_close(other, 5000) == 0 && ok;
}

#define GUESTS 64

/* Openings under way at once share what may be granted. */
static void test_grants(void)
{
	struct o2g_options options = bed_options();
	uint8_t was[O2G_NAME_SIZE];
	uint64_t all = 0;
	struct o2g *o2g;
	int fd[GUESTS];

	options.unexpected = 16 << 20;
	memcpy(was, name, sizeof(was));
	if (o2g_open(&o2g, &options) || o2g_name(o2g, name))
		bed_die("open");
	for (int i = 0; i < GUESTS; i++) {
		struct o2g_identity self = make_identity(0, (u8)(i + 1));
		struct o2g_opening o = make_hello(&self);

		fd[i] = dial_victim();
		if (!send_bytes(fd[i], o.out, o.out_length) ||
		    receive_bytes(fd[i], &o.challenge, sizeof(o.challenge)) <=
			    0)
			bed_die("challenge");
		all += o.challenge.credit;
	}
	tap_ok(all <= options.unexpected / 2,
	       "openings at once are granted no more than half of the memory");
	for (int i = 0; i < GUESTS; i++)
		close(fd[i]);
	memcpy(name, was, sizeof(was));
	TAP(o2g_close(o2g, 1000) == 0);
}

/* Takes all descriptors there are, in addition to what is open. */
static int take_all(int *taken, int most, struct rlimit *was)
{
	struct rlimit tight;
	int n = 0, next = dup(0);

	getrlimit(RLIMIT_NOFILE, was);
	tight = *was;
	tight.rlim_cur = (rlim_t)next + 10;
	close(next);
	setrlimit(RLIMIT_NOFILE, &tight);
	while (n < most && (taken[n] = dup(0)) >= 0)
		n++;
	return n;
}

/* Who accepts and has no descriptor left lets an opening under way go on. */
static void test_no_descriptors(void)
{
	struct o2g_identity self = make_identity(0, 13);
	int fd, second, taken[1024], n, was_err = dup(STDERR_FILENO);
	uint8_t was[O2G_NAME_SIZE];
	FILE *errors = tmpfile();
	struct o2g_opening o;
	struct rlimit limit;
	struct o2g *o2g;

	setenv("SKEP_O2G_LOG", "1",
	       1); /* before there is a thread to read it */
	o2g = bed_open();
	memcpy(was, name, sizeof(was));
	TAP(o2g_name(o2g, name) == 0);
	fd = dial_victim();
	o = make_hello(&self);
	TAP(send_bytes(fd, o.out, o.out_length));
	TAP(receive_bytes(fd, &o.challenge, sizeof(o.challenge)) > 0);
	TAP(o2g_opening_took(&o, sizeof(o.challenge)) == O2G_OPENING_MORE);
	second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	dup2(fileno(errors), STDERR_FILENO);
	n = take_all(taken, 1024, &limit);
	connect_to(second);
	for (int i = 0; i < 10000 && lseek(STDERR_FILENO, 0, SEEK_END) == 0;
	     i++)
		usleep(1000); /* until it says that it can't accept */
	while (n > 0)
		close(taken[--n]);
	setrlimit(RLIMIT_NOFILE, &limit);
	dup2(was_err, STDERR_FILENO);
	close(was_err);
	fclose(errors);
	TAP(send_bytes(fd, o.out, o.out_length));
	tap_ok(receive_bytes(fd, &o.welcome, sizeof(o.welcome)) ==
			       sizeof(o.welcome) &&
		       o2g_opening_took(&o, sizeof(o.welcome)) ==
			       O2G_OPENING_WELCOME,
	       "a lack of descriptors ends no opening under way");
	close(fd);
	close(second);
	memcpy(name, was, sizeof(was));
	TAP(o2g_close(o2g, 1000) == 0);
	setenv("SKEP_O2G_LOG", "0", 1);
}

#define CROWD 1000

static void test_crowd(void)
{
	struct rlimit limit;
	static int fd[CROWD];
	int gone = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < 2 * CROWD + 100 &&
	    limit.rlim_max > limit.rlim_cur) {
		limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (int i = 0; i < CROWD; i++)
		fd[i] = dial_victim();
	tap_ok(victim_works(), "a real peer connects beside %d half-open ones",
	       CROWD);
	for (int i = 0; i < CROWD; i++) {
		struct pollfd file = {.fd = fd[i], .events = POLLIN};

		gone += poll(&file, 1, 0) == 1;
		close(fd[i]);
	}
	tap_ok(gone >= CROWD - 200,
	       "half-open connections are bounded, the oldest are closed");
}

/* Says hello, as whoever has heard one can; what it has to prove is in `o`. */
static int dial_hello(struct o2g_opening *o, u8 id)
{
	struct o2g_identity self = make_identity(0, id);
	int fd = dial_victim();

	*o = make_hello(&self);
	o->self = 0; /* it ends with this call */
	if (!send_bytes(fd, o->out, o->out_length) ||
	    receive_bytes(fd, &o->challenge, sizeof(o->challenge)) <= 0)
		bed_die("hello");
	return fd;
}

#define PLACES 128 /* of unauthenticated peers */

/* An opening under way outlasts those who connect and say nothing; among its
 * own kind the oldest goes. */
static void test_outlasts(void)
{
	static int fd[CROWD], rival[PLACES];
	struct o2g_identity self = make_identity(0, 21);
	struct o2g_opening o, other;
	int friend = dial_hello(&o, 21), oldest;

	for (int i = 0; i < CROWD; i++)
		fd[i] = dial_victim();
	/* all of them have been accepted once this one was sent away */
	TAP(sent_away(fd[CROWD - PLACES]));
	o.self = &self;
	TAP(o2g_opening_took(&o, sizeof(o.challenge)) == O2G_OPENING_MORE);
	TAP(send_bytes(friend, o.out, o.out_length));
	tap_ok(receive_bytes(friend, &o.welcome, sizeof(o.welcome)) ==
			       sizeof(o.welcome) &&
		       o2g_opening_took(&o, sizeof(o.welcome)) ==
			       O2G_OPENING_WELCOME,
	       "an opening under way survives %d silent unauthenticated peers",
	       CROWD);
	close(friend);
	oldest = dial_hello(&other, 22);
	for (int i = 0; i < PLACES; i++)
		rival[i] = dial_hello(&other, (u8)(23 + i % 100));
	tap_ok(sent_away(oldest),
	       "openings that name the job have no more than %d places",
	       PLACES);
	close(oldest);
	for (int i = 0; i < PLACES; i++)
		close(rival[i]);
	for (int i = 0; i < CROWD; i++)
		close(fd[i]);
}

/* ---- simultaneous connects ---- */

struct side {
	struct o2g *o2g;
	uint32_t peer;
	pthread_barrier_t *gate;
	int good;
};

#define ROUND 20

static void *run_side(void *arg)
{
	struct side *side = arg;
	uint32_t in[ROUND] = {0}, out[ROUND];
	int events = 0;

	for (uint32_t i = 0; i < ROUND; i++)
		bed_recv(side->o2g, side->peer, 3, &in[i], 4);
	pthread_barrier_wait(side->gate);
	for (uint32_t i = 0; i < ROUND; i++) {
		out[i] = i + 1;
		bed_send(side->o2g, side->peer, 3, &out[i], 4);
	}
	while (events < 2 * ROUND)
		events += bed_event(side->o2g).status == 0;
	side->good = 1;
	for (uint32_t i = 0; i < ROUND; i++)
		side->good &= in[i] == i + 1;
	return 0;
}

/* No message lost, doubled or out of order, whoever dialled. */
static int both_dial(void)
{
	pthread_barrier_t gate;
	struct o2g *one = bed_open(), *two = bed_open();
	struct side side[2] = {{one, bed_peer(one, two), &gate, 0},
			       {two, bed_peer(two, one), &gate, 0}};
	struct o2g_event event;
	pthread_t thread;
	int extra;

	pthread_barrier_init(&gate, 0, 2);
	pthread_create(&thread, 0, run_side, &side[0]);
	run_side(&side[1]);
	pthread_join(thread, 0);
	extra = o2g_wait(one, &event, 1, 0) + o2g_wait(two, &event, 1, 0);
	pthread_barrier_destroy(&gate);
	extra += !!o2g_close(one, 5000) + !!o2g_close(two, 5000);
	return side[0].good && side[1].good && extra == 0;
}

static void test_simultaneous(void)
{
	int good = 0, rounds = 150;

	for (int i = 0; i < rounds; i++)
		good += both_dial();
	tap_ok(good == rounds, "%d of %d simultaneous connects lost nothing",
	       good, rounds);
}

/* A listener of the test's own, and its name for an endpoint with that id. */
static int listen_as(uint8_t out[O2G_NAME_SIZE], u8 id)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 5) ||
	    getsockname(fd, (struct sockaddr *)&at, &length))
		bed_die("listen");
	memset(out, 0, O2G_NAME_SIZE);
	out[0] = 4;
	out[2] = (uint8_t)ntohs(at.sin_port);
	out[3] = (uint8_t)(ntohs(at.sin_port) >> 8);
	memcpy(out + 8, &at.sin_addr, 4);
	memset(out + 24, id, 15);
	out[39] = id ? id : 1; /* all zero is no id */
	return fd;
}

/* The victim dials us, and before we answer we prove ourselves on a dial of
 * our own: what is its verdict? `theirs`: its connection to us. */
static u32 cross_dials(u8 id, int *theirs, int *ours)
{
	uint8_t mine[O2G_NAME_SIZE];
	struct o2g_identity self = make_identity(0, id);
	struct o2g_opening o = make_hello(&self);
	struct o2g_match to = {.context = 1};
	int listener = listen_as(mine, id);

	if (o2g_peer(victim, mine, &to.peer) ||
	    o2g_send(victim, &to, "x", 1, 0, O2G_COPY, 0))
		bed_die("send");
	*theirs = accept(listener, 0, 0);
	close(listener);
	*ours = dial_victim();
	if (!send_bytes(*ours, o.out, o.out_length) ||
	    receive_bytes(*ours, &o.challenge, sizeof(o.challenge)) <= 0 ||
	    o2g_opening_took(&o, sizeof(o.challenge)) ||
	    !send_bytes(*ours, o.out, o.out_length) ||
	    receive_bytes(*ours, &o.welcome, sizeof(o.welcome)) <= 0)
		bed_die("opening");
	return o.welcome.verdict;
}

static void test_verdicts(void)
{
	char byte, bytes[sizeof(struct o2g_hello)];
	int theirs, ours;

	tap_ok(cross_dials(0, &theirs, &ours) == O2G_WELCOME,
	       "of two simultaneous connects the smaller id's is accepted");
	TAP(receive_bytes(theirs, bytes, sizeof(bytes)) == sizeof(bytes));
	tap_ok(receive_bytes(theirs, &byte, 1) == 0,
	       "of two simultaneous connects the larger id's is closed");
	tap_ok(receive_bytes(ours, &byte, 1) == 1 && byte == O2G_MESSAGE,
	       "waiting messages go over the connection that remains");
	close(theirs);
	close(ours);
	TAP(bed_event(victim).status == 0);
	tap_ok(cross_dials(0xff, &theirs, &ours) == O2G_CROSSED,
	       "the larger id's connect is told to wait");
	tap_ok(receive_bytes(ours, &byte, 1) == 0,
	       "the larger id's connect is closed");
	TAP(receive_bytes(theirs, bytes, sizeof(bytes)) == sizeof(bytes));
	TAP(recv(theirs, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	close(theirs);
	close(ours);
}

/* One that says nothing is closed by time. */
static void test_silent(void)
{
	int fd = dial_victim();

	tap_ok(sent_away(fd),
	       "a silent unauthenticated peer is closed after %d s",
	       O2G_OPENING_SECONDS);
	close(fd);
}

/* The victim expects a message from us and dials; we answer, take its proof,
 * and then stop as a process does under a debugger. */
static void test_stopped(void)
{
	struct o2g_identity self = make_identity(0, 31);
	static u8 nonce[16] = {4};
	uint8_t mine[O2G_NAME_SIZE];
	struct o2g_opening o;
	struct o2g_event event;
	int listener = listen_as(mine, 31), fd;
	uint32_t peer;
	char in;

	if (o2g_peer(victim, mine, &peer))
		bed_die("peer");
	bed_recv(victim, peer, 1, &in, 1);
	fd = accept(listener, 0, 0);
	o2g_opening_accept(&o, &self, O2G_CREDIT_MIN, nonce);
	if (receive_bytes(fd, &o.hello, sizeof(o.hello)) <= 0 ||
	    o2g_opening_took(&o, sizeof(o.hello)) ||
	    !send_bytes(fd, o.out, o.out_length) ||
	    receive_bytes(fd, &o.proof, sizeof(o.proof)) <= 0 ||
	    o2g_opening_took(&o, sizeof(o.proof)) != O2G_OPENING_PROVEN)
		bed_die("opening");
	test_silent(); /* who came after us: our time is over too */
	tap_ok(o2g_wait(victim, &event, 1, 0) == 0,
	       "a peer that stops during its opening is waited for");
	o2g_opening_decide(&o, O2G_WELCOME);
	TAP(send_bytes(fd, o.out, o.out_length));
	shutdown(fd, SHUT_WR);
	tap_ok(bed_event(victim).status == -ECONNRESET,
	       "a peer that stopped is accepted when it continues");
	close(fd);
	close(listener);
}

/* ---- sockets of the program ---- */

/* A pair of connected sockets, as socketpair() does not make them. */
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

static void test_registered(void)
{
	struct o2g *one = bed_open(), *two = bed_open();
	uint32_t there = bed_peer(one, two), here = bed_peer(two, one);
	int pair[2];
	char in[6] = "";

	TAP(tcp_pair(pair));
	TAP(o2g_register_socket(one, pair[0], there, 1) == 0);
	TAP(o2g_register_socket(two, pair[1], here, 0) == 0);
	bed_recv(two, here, 1, in, sizeof(in));
	bed_send(one, there, 1, "bytes", 6);
	TAP(bed_event(one).status == 0);
	tap_ok(bed_event(two).status == 0 && strcmp(in, "bytes") == 0,
	       "a registered socket carries messages");
	tap_ok(o2g_register_socket(one, dup(0), there, 1) == -EISCONN,
	       "a second socket for the same peer is refused");
	TAP(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	for (int i = 0; i < 2; i++)
		tap_ok(o2g_register_socket(one, pair[i], bed_peer(one, victim),
					   1) == -ENOTSOCK,
		       "a socket that is not TCP is refused: %s", o2g_error());
	TAP(o2g_close(one, 5000) == 0);
	TAP(o2g_close(two, 5000) == 0);
}

/* The other end of a registered socket is gone when it is to be welcomed: what
 * is for that peer fails. Our side of the stream, shut, stands for that. */
static void registered_gone(void)
{
	struct o2g_identity self = make_identity(0, 13);
	struct o2g_opening o = make_hello(&self);
	uint8_t its[O2G_NAME_SIZE];
	struct o2g_event event;
	int pair[2], shut;
	uint32_t peer;

	memcpy(its, name, sizeof(its));
	memcpy(its + 24, &self.id, sizeof(self.id));
	TAP(o2g_peer(victim, its, &peer) == 0 && tcp_pair(pair));
	shut = dup(pair[1]);
	TAP(o2g_register_socket(victim, pair[1], peer, 0) == 0);
	bed_send(victim, peer, 1, its, 1);
	TAP(send_bytes(pair[0], o.out, o.out_length));
	TAP(receive_bytes(pair[0], &o.challenge, sizeof(o.challenge)) ==
	    sizeof(o.challenge));
	TAP(o2g_opening_took(&o, sizeof(o.challenge)) == O2G_OPENING_MORE);
	TAP(shutdown(shut, SHUT_WR) == 0);
	TAP(send_bytes(pair[0], o.out, o.out_length));
	do /* sends to earlier peers may end here, too */
		event = bed_event(victim);
	while (event.cookie != its);
	tap_ok(event.status == -ECONNRESET,
	       "a peer that is gone when it is accepted is dead");
	close(pair[0]);
	close(shut);
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	victim = bed_open();
	if (o2g_name(victim, name))
		return 1;
	test_garbage();
	wrong_job();
	no_secret();
	test_replayed();
	wrong_revision();
	slow_friend();
	tap_ok(victim_works(), "a real peer connects after all of them");
	test_grants();
	test_no_descriptors();
	test_crowd();
	test_outlasts();
	test_stopped();
	test_verdicts();
	test_registered();
	registered_gone();
	test_simultaneous();
	TAP(bed_event(victim).status <
	    0); /* whom test_verdicts() left waiting */
	TAP(o2g_close(victim, 1000) == 0);
	return tap_done();
}
